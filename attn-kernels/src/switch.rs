//! Environment variables that turn something off.

use std::{env, sync::Mutex};

/// Whether a variable leaves on what it turns off. A value that is not understood is named once, and changes nothing.
pub(crate) fn is_on(name: &'static str) -> bool {
    static NAMED: Mutex<Vec<&str>> = Mutex::new(Vec::new());
    let Some(value) = env::var_os(name) else { return true };
    on(&value.to_string_lossy()).unwrap_or_else(|| {
        if let Ok(mut named) = NAMED.lock()
            && !named.contains(&name)
        {
            named.push(name);
            tracing::warn!("{name}={} is neither on nor off, and is ignored", value.display());
        }
        true
    })
}

fn on(value: &str) -> Option<bool> {
    match value {
        "off" | "0" | "false" => Some(false),
        "" | "on" | "1" | "true" => Some(true),
        _ => None,
    }
}

#[cfg(test)]
mod tests {
    use super::on;

    #[test]
    fn values_are_on_or_off_or_not_understood() {
        assert!(["off", "0", "false"].iter().all(|value| on(value) == Some(false)));
        assert!(["", "on", "1", "true"].iter().all(|value| on(value) == Some(true)));
        assert!(["of", "OFF", "none", "no"].iter().all(|value| on(value).is_none()));
    }
}
