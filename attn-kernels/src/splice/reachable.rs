//! Leaves out of a translation unit what its kernels do not use, as a linker leaves out sections. So a reader sees one
//! kernel, and a compiler parses no more.
//!
//! Names decide: an item stays if an item that stays has its name, whatever it means there. Text of templates is
//! formatted, so that each line at column 0 outside of an item begins one.

mod item;

use std::collections::{HashMap, HashSet};

use item::{Item, Kind, identifiers};

/// The text without items that nothing uses; as it is if it has no kernel.
pub(super) fn reachable(text: &str) -> String {
    let sections = sections(text);
    if !sections.iter().any(|section| matches!(&section.what, What::Item(item) if item.is_kernel())) {
        return text.to_owned();
    }
    let mut stays = used(&sections);
    drop_empty_scopes(&sections, &mut stays);
    printed(&sections, &stays)
}

/// A part of the text: lines of a file that stay or go together.
struct Section<'a> {
    file: &'a str,
    /// The number of its first line.
    line: usize,
    lines: Vec<&'a str>,
    /// The file and line that a compiler takes the line behind it for.
    end: (&'a str, usize),
    what: What<'a>,
}

enum What<'a> {
    Item(Item<'a>),
    /// Begins a namespace or a condition.
    Begin,
    /// The other side of a condition.
    Else,
    End,
    /// A comment that belongs to no item.
    Comment,
    Other,
}

/// Cuts a text.
fn sections(text: &str) -> Vec<Section<'_>> {
    let (mut sections, mut file, mut number) = (Vec::<Section<'_>>::new(), "", 1);
    // lines of a comment that may belong to the item behind it
    let mut comment: Vec<&str> = Vec::new();
    let mut lines = text.lines();
    while let Some(line) = lines.next() {
        if line.starts_with("//") {
            comment.push(line);
            number += 1;
            continue;
        }
        let (of_file, begins) = (file, number - comment.len());
        let mut of_section = std::mem::take(&mut comment);
        if line.trim().is_empty() || line.starts_with("#line ") {
            if !of_section.is_empty() {
                let (lines, end) = (of_section, (file, number));
                sections.push(Section { file, line: begins, lines, end, what: What::Comment });
            }
            (file, number) = next_line(line, file, number);
            continue;
        }
        of_section.push(line);
        number += 1;
        let what = match line {
            _ if line.starts_with("#if") => What::Begin,
            _ if line.starts_with("#el") => What::Else,
            _ if line.starts_with("#endif") || line.starts_with('}') => What::End,
            _ if line.starts_with("namespace ") && line.ends_with('{') || line == "extern \"C\" {" => What::Begin,
            _ if line.starts_with("#undef ") => What::Item(Item::undefines(line)),
            _ if item::is_call_of_macro(line) => What::Item(Item::call_of_macro(line)),
            _ if line.starts_with('#') && !line.starts_with("#define ") || line.starts_with(' ') => What::Other,
            _ => {
                let (first, is_macro, mut is_open) = (of_section.len() - 1, line.starts_with('#'), false);
                let mut last = line;
                while if is_macro { last.ends_with('\\') } else { !item::ends(last, is_open) } {
                    is_open |= item::opens(last);
                    let Some(line) = lines.next() else { break };
                    (file, number) = next_line(line, file, number);
                    of_section.push(line);
                    last = line;
                }
                What::Item(if is_macro { Item::defines(line) } else { Item::of(&of_section[first..]) })
            }
        };
        sections.push(Section { file: of_file, line: begins, lines: of_section, end: (file, number), what });
    }
    sections
}

/// The file and the number of the line behind a line.
fn next_line<'a>(line: &'a str, file: &'a str, number: usize) -> (&'a str, usize) {
    let directive = line.strip_prefix("#line ").and_then(|directive| directive.split_once(" \""));
    match directive.map(|(number, path)| (number.parse(), path.trim_end_matches('"'))) {
        Some((Ok(number), path)) => (path, number),
        _ => (file, number + 1),
    }
}

/// Which sections stay: kernels, what is no item, and what these use.
fn used(sections: &[Section<'_>]) -> Vec<bool> {
    let mut by_name: HashMap<&str, Vec<usize>> = HashMap::new();
    let mut with_named = Vec::new();
    let (mut stays, mut open) = (vec![false; sections.len()], Vec::new());
    // what macros put behind names
    let mut pasted = HashSet::new();
    for (number, section) in sections.iter().enumerate() {
        pasted.extend(
            section.lines.iter().flat_map(|line| line.split("##").skip(1)).filter_map(|of| identifiers(of).next()),
        );
        match &section.what {
            // constants of the host, and assertions of them
            _ if ["traits", "checks"].contains(&section.file) => open.push(number),
            What::Item(item) if item.kind == Kind::WithNamed => with_named.push((number, item)),
            What::Item(item) if item.kind == Kind::Named => {
                item.names.iter().for_each(|name| by_name.entry(name).or_default().push(number));
            }
            What::Comment => {}
            _ => open.push(number),
        }
    }
    loop {
        while let Some(number) = open.pop() {
            if std::mem::replace(&mut stays[number], true) {
                continue;
            }
            for line in &sections[number].lines {
                open.extend(identifiers(line).filter_map(|name| by_name.get(name)).flatten());
                if item::is_call_of_macro(line) {
                    let names = identifiers(line).flat_map(|name| pasted.iter().map(move |of| format!("{name}{of}")));
                    open.extend(names.filter_map(|name| by_name.get(name.as_str())).flatten());
                }
            }
        }
        let here = |name: &&str| by_name.get(name).is_none_or(|of| of.iter().any(|&number| stays[number]));
        let named = with_named.iter().filter(|(number, item)| !stays[*number] && item.names.iter().all(here));
        open.extend(named.map(|(number, _)| *number));
        if open.is_empty() {
            break;
        }
    }
    // a comment stays beside items of its file
    for (number, section) in sections.iter().enumerate() {
        if matches!(section.what, What::Comment) {
            stays[number] = sections
                .iter()
                .zip(&stays)
                .any(|(other, stays)| *stays && other.file == section.file && matches!(other.what, What::Item(_)));
        }
    }
    stays
}

/// Drops namespaces and conditions that have nothing left.
fn drop_empty_scopes(sections: &[Section<'_>], stays: &mut [bool]) {
    // sections that begin, continue and end each open scope, and whether it has anything
    let mut scopes: Vec<(Vec<usize>, bool)> = Vec::new();
    for (number, section) in sections.iter().enumerate() {
        match section.what {
            What::Begin => scopes.push((vec![number], false)),
            What::Else => {
                if let Some((bounds, _)) = scopes.last_mut() {
                    bounds.push(number);
                }
            }
            What::End => {
                let Some((bounds, filled)) = scopes.pop() else { continue };
                if !filled {
                    bounds.into_iter().chain([number]).for_each(|bound| stays[bound] = false);
                } else if let Some((_, outer)) = scopes.last_mut() {
                    *outer = true;
                }
            }
            _ if stays[number] => {
                if let Some((_, filled)) = scopes.last_mut() {
                    *filled = true;
                }
            }
            _ => {}
        }
    }
}

/// The sections that stay. `#line` directives say where they are from.
fn printed(sections: &[Section<'_>], stays: &[bool]) -> String {
    let mut text = String::new();
    // the file and line that a compiler takes the next line for
    let mut at = ("", 1);
    for (section, _) in sections.iter().zip(stays).filter(|(_, stays)| **stays) {
        if at == (section.file, section.line.wrapping_sub(1)) {
            text.push('\n');
        } else if at != (section.file, section.line) {
            text.push_str(&format!("\n#line {} \"{}\"\n", section.line, section.file));
        }
        section.lines.iter().for_each(|line| {
            text.push_str(line);
            text.push('\n');
        });
        at = section.end;
    }
    text
}

#[cfg(test)]
mod tests;
