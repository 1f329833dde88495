//! The rotary embedding of a configuration: `rope_theta` and `rope_scaling`, or both in `rope_parameters`.

use super::{ModelError, config::Config, understood};
use crate::Variant;
use crate::stock::{Llama3Rope, Rope, Yarn};

/// The rotary embedding of one kind of layer. `kind` is the key of the kind's own parameters in `rope_parameters`;
/// without that key all kinds share them.
pub(super) fn read(config: &Config<'_>, kind: &str, default_theta: f32) -> Result<Variant, ModelError> {
    let all = config.object("rope_parameters")?;
    let own = match &all {
        Some(all) => match all.object(kind)? {
            Some(own) => {
                only_kinds(all)?;
                Some(own)
            }
            None => Some(all.clone()),
        },
        None => config.object("rope_scaling")?,
    };
    let given = own.as_ref().map_or(Ok(None), |own| own.above_zero("rope_theta"))?;
    let theta = given.or(config.above_zero("rope_theta")?).unwrap_or(default_theta);
    of(config, own.as_ref(), theta, false)
}

/// Refuses parameters beside those of the kinds of layers.
fn only_kinds(all: &Config<'_>) -> Result<(), ModelError> {
    all.mark_read(&["full_attention", "sliding_attention"]);
    understood::check_rope(all)
}

/// Rotary embedding with these parameters; unscaled without any.
pub(super) fn of(
    config: &Config<'_>,
    scaling: Option<&Config<'_>>,
    theta: f32,
    interleaved: bool,
) -> Result<Variant, ModelError> {
    let Some(scaling) = scaling else { return Ok(Rope { theta, interleaved, ..Rope::default() }.into()) };
    // read beside the parameters
    scaling.mark_read(&["rope_theta"]);
    let rope = scaled(config, scaling, theta, interleaved)?;
    understood::check_rope(scaling)?;
    Ok(rope)
}

fn scaled(config: &Config<'_>, scaling: &Config<'_>, theta: f32, interleaved: bool) -> Result<Variant, ModelError> {
    let plain = |scale| Rope { theta, scale, interleaved, ..Rope::default() }.into();
    let kind = scaling.text("rope_type")?.or(scaling.text("type")?).unwrap_or("default");
    let factor = || scaling.above_zero("factor")?.ok_or(ModelError::Missing { field: "factor" });
    let original = || -> Result<i32, ModelError> {
        let field = "original_max_position_embeddings";
        let given = scaling.length(field)?.or(config.length(field)?);
        given.or(config.length("max_position_embeddings")?).ok_or(ModelError::Missing { field })
    };
    match kind {
        "default" => Ok(plain(1.0)),
        "linear" => Ok(plain(factor()?)),
        "llama3" => Ok(Llama3Rope {
            theta,
            factor: factor()?,
            low_freq_factor: scaling.number("low_freq_factor")?.unwrap_or(1.0),
            high_freq_factor: scaling.number("high_freq_factor")?.unwrap_or(4.0),
            original_len: original()?,
            interleaved,
            ..Llama3Rope::default()
        }
        .into()),
        "yarn" => {
            let factor = factor()?;
            Ok(Yarn {
                theta,
                factor,
                original_len: original()?,
                beta_fast: scaling.number("beta_fast")?.unwrap_or(32.0),
                beta_slow: scaling.number("beta_slow")?.unwrap_or(1.0),
                truncate: scaling.truth("truncate")?.unwrap_or(true),
                mscale: mscale(scaling, factor)?,
                interleaved,
                inv_freq: crate::lang::Tensor1::unset(),
            }
            .into())
        }
        other => Err(ModelError::Unsupported {
            field: "rope_type".to_owned(),
            got: other.to_owned(),
            known: "default, linear, llama3, yarn",
        }),
    }
}

/// The `mscale` of YaRN that gives the attention factor of the configuration.
fn mscale(scaling: &Config<'_>, factor: f32) -> Result<f32, ModelError> {
    const BY_DEFAULT: f32 = 0.1;
    let length = |mscale: f32| BY_DEFAULT * mscale * factor.ln() + 1.0;
    let given = scaling.number("attention_factor")?;
    let pair = (scaling.number("mscale")?, scaling.number("mscale_all_dim")?);
    let wanted = match (given, pair) {
        (Some(wanted), _) => wanted,
        (None, (Some(a), Some(b))) if a != 0.0 && b != 0.0 => length(a) / length(b),
        _ => return Ok(BY_DEFAULT),
    };
    Ok(if factor > 1.0 { ((wanted - 1.0) / factor.ln()).max(0.0) } else { 0.0 })
}
