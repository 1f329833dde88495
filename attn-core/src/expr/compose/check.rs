//! The rules of composition at run time: for compositions by name, and for what types cannot express.

use crate::expr::tree::{Node, Variant};
use crate::lang::{ComposeError, Hook, Normalizer, VariantDesc};

/// Checks that the parts of a variant compose.
pub(crate) fn check(variant: &Variant) -> Result<(), ComposeError> {
    check_positions(variant, Position::Top)?;
    at_the_top(variant)?;
    finishing(variant).map(|_| ())
}

/// Where a part stands; the strictest place first.
#[derive(Clone, Copy, PartialEq)]
enum Position {
    /// Under `or` or `not`.
    Mask(&'static str),
    /// In a branch of a union.
    UnionBranch,
    /// Under `remap` or `per_head`.
    Nested(&'static str),
    Top,
}

impl Position {
    /// The place inside a combinator that stands here.
    fn inside(self, combinator: &'static str) -> Position {
        match (self, combinator) {
            (Position::Mask(_), _) | (Position::UnionBranch, "remap" | "per_head") => self,
            (_, "or" | "not") => Position::Mask(combinator),
            (_, "union") => Position::UnionBranch,
            _ => Position::Nested(combinator),
        }
    }
    fn name(self) -> &'static str {
        match self {
            Position::Mask(name) | Position::Nested(name) => name,
            Position::UnionBranch => "union",
            Position::Top => "",
        }
    }
}

fn check_positions(variant: &Variant, position: Position) -> Result<(), ComposeError> {
    for node in variant.nodes() {
        match node {
            Node::Part(part) => part_in(part.desc(), position)?,
            Node::Or(branches) => branches.iter().try_for_each(|b| check_positions(b, position.inside("or")))?,
            Node::Not(inner) => check_positions(inner, position.inside("not"))?,
            // made of branches that were checked
            Node::Except(_) => {}
            Node::Remap { map, inner } => {
                let position = position.inside("remap");
                part_in(map.desc(), position)?;
                if !map.desc().has(Hook::RemapQoPos) && !map.desc().has(Hook::RemapKvPos) {
                    return Err(ComposeError::NotAMap { part: map.desc().name.to_owned() });
                }
                check_positions(inner, position)?;
            }
            Node::PerHead(per_head) => {
                per_head.check()?;
                per_head.branches().iter().try_for_each(|b| check_positions(b, position.inside("per_head")))?;
            }
            Node::Union(_) if position != Position::Top => {
                return Err(ComposeError::NestedUnion { combinator: position.name() });
            }
            Node::Union(branches) => {
                branches.iter().try_for_each(|branch| check_positions(branch, Position::UnionBranch))?;
            }
        }
    }
    Ok(())
}

/// Checks that a part may stand at a place.
fn part_in(desc: &'static VariantDesc, position: Position) -> Result<(), ComposeError> {
    let part = || desc.name.to_owned();
    // hooks over all keys of a row: normaliser, sink, output transform
    let finish = match desc.normalizer {
        Normalizer::Softmax => {
            [Hook::SinkLogit, Hook::OutputTransform].into_iter().find(|h| desc.has(*h)).map(Hook::method)
        }
        _ => Some("NORMALIZER"),
    };
    match position {
        Position::Top => Ok(()),
        _ if desc.has(Hook::KvListLen) => Err(ComposeError::ListInside { combinator: position.name(), part: part() }),
        Position::Nested(_) => Ok(()),
        Position::UnionBranch => match finish {
            Some(hook) => Err(ComposeError::UnionBranch { part: part(), hook }),
            None => Ok(()),
        },
        Position::Mask(combinator) => {
            let other = desc.hooks.iter().map(|text| text.hook).find(|hook| !of_a_mask(*hook)).map(Hook::method);
            match finish.or(other) {
                Some(hook) => Err(ComposeError::NotAMask { combinator, part: part(), hook }),
                None => Ok(()),
            }
        }
    }
}

/// Whether a mask may have the hook.
fn of_a_mask(hook: Hook) -> bool {
    !matches!(
        hook,
        Hook::QueryTransform
            | Hook::KeyTransform
            | Hook::ValueTransform
            | Hook::LogitsTransform
            | Hook::Weight
            | Hook::Denominator
            | Hook::SinkLogit
            | Hook::OutputTransform
    )
}

/// Checks that a composition has at most one key list and at most one union.
fn at_the_top(variant: &Variant) -> Result<(), ComposeError> {
    let name = |part: &VariantDesc| part.name.to_owned();
    let mut lists = variant.nodes().iter().filter_map(Node::as_part).filter(|part| part.desc().has(Hook::KvListLen));
    let mut unions = variant.nodes().iter().filter(|node| matches!(node, Node::Union(_)));
    let (list, union) = (lists.next(), unions.next());
    if let (Some(first), Some(second)) = (list, lists.next()) {
        return Err(ComposeError::TwoLists { first: name(first.desc()), second: name(second.desc()) });
    }
    if unions.next().is_some() {
        return Err(ComposeError::TwoUnions);
    }
    match (list, union) {
        (Some(list), Some(_)) => Err(ComposeError::ListAndUnion { part: name(list.desc()) }),
        _ => Ok(()),
    }
}

/// The parts with hooks over all keys of a row.
#[derive(Clone, Copy, Default)]
struct Finish {
    /// The part that replaces the normaliser, and its `MAX_FLOOR`.
    normalizer: Option<(&'static VariantDesc, f32)>,
    sink: Option<&'static VariantDesc>,
}

impl Finish {
    fn add(&mut self, other: Finish) -> Result<(), ComposeError> {
        let name = |part: &VariantDesc| part.name.to_owned();
        if let (Some((first, _)), Some((second, _))) = (&self.normalizer, &other.normalizer) {
            return Err(ComposeError::TwoNormalizers { first: name(first), second: name(second) });
        }
        self.normalizer = self.normalizer.or(other.normalizer);
        self.sink = self.sink.or(other.sink);
        match (&self.normalizer, self.sink) {
            (Some((normalizer, _)), Some(sink)) if matches!(normalizer.normalizer, Normalizer::Plain { .. }) => {
                Err(ComposeError::SinkWithoutSoftmax { sink: name(sink), normalizer: name(normalizer) })
            }
            _ => Ok(()),
        }
    }

    /// The normaliser and the bits of `MAX_FLOOR`: all branches of `per_head` must agree in them.
    fn kind(&self) -> (Normalizer, u32) {
        self.normalizer.map_or((Normalizer::Softmax, 0), |(part, floor)| (part.normalizer, floor.to_bits()))
    }
}

fn finishing(variant: &Variant) -> Result<Finish, ComposeError> {
    let part = |part: &dyn crate::lang::ErasedVariant| {
        let desc = part.desc();
        Finish {
            normalizer: (desc.normalizer != Normalizer::Softmax).then(|| (desc, part.max_floor())),
            sink: desc.has(Hook::SinkLogit).then_some(desc),
        }
    };
    let mut all = Finish::default();
    for node in variant.nodes() {
        match node {
            Node::Part(one) => all.add(part(&**one))?,
            Node::Remap { map, inner } => {
                all.add(part(&**map))?;
                all.add(finishing(inner)?)?;
            }
            Node::PerHead(per_head) => {
                let branches = per_head.branches().iter().map(finishing).collect::<Result<Vec<_>, _>>()?;
                let kind = branches.first().map(Finish::kind);
                if let Some(second) = branches.iter().position(|b| Some(b.kind()) != kind) {
                    return Err(ComposeError::BranchNormalizers { first: 0, second });
                }
                let normalizer = branches.iter().find_map(|b| b.normalizer);
                all.add(Finish { normalizer, sink: branches.iter().find_map(|b| b.sink) })?;
            }
            Node::Or(_) | Node::Not(_) | Node::Except(_) | Node::Union(_) => {}
        }
    }
    Ok(all)
}
