//! The rules, at run time: for compositions by name, and for what types cannot see.

use super::ComposeError;
use crate::expr::{Node, Variant};
use crate::lang::{Hook, Normalizer, VariantDesc};

/// Checks that parts go together.
pub(crate) fn check(variant: &Variant) -> Result<(), ComposeError> {
    places(variant, Place::Top)?;
    at_the_top(variant)?;
    finishing(variant).map(|_| ())
}

/// What is around a part, the strictest first.
#[derive(Clone, Copy, PartialEq)]
enum Place {
    /// Under `or` or `not`.
    Mask(&'static str),
    /// In an arm of a union.
    Arm,
    /// Under `remap` or `per_head`.
    Inner(&'static str),
    Top,
}

impl Place {
    /// The place under a combinator that is here.
    fn inside(self, combinator: &'static str) -> Place {
        match (self, combinator) {
            (Place::Mask(_), _) | (Place::Arm, "remap" | "per_head") => self,
            (_, "or" | "not") => Place::Mask(combinator),
            (_, "union") => Place::Arm,
            _ => Place::Inner(combinator),
        }
    }
    fn name(self) -> &'static str {
        match self {
            Place::Mask(name) | Place::Inner(name) => name,
            Place::Arm => "union",
            Place::Top => "",
        }
    }
}

fn places(variant: &Variant, place: Place) -> Result<(), ComposeError> {
    for node in variant.nodes() {
        match node {
            Node::Part(part) => part_in(part.desc(), place)?,
            Node::Or(branches) => branches.iter().try_for_each(|b| places(b, place.inside("or")))?,
            Node::Not(inner) => places(inner, place.inside("not"))?,
            // masks of arms that were checked
            Node::Except(_) => {}
            Node::Remap { map, inner } => {
                let place = place.inside("remap");
                part_in(map.desc(), place)?;
                if !map.desc().has(Hook::RemapQoPos) && !map.desc().has(Hook::RemapKvPos) {
                    return Err(ComposeError::NotAMap { part: map.desc().name.to_owned() });
                }
                places(inner, place)?;
            }
            Node::PerHead(per_head) => {
                per_head.check()?;
                per_head.branches().iter().try_for_each(|b| places(b, place.inside("per_head")))?;
            }
            Node::Union(_) if place != Place::Top => {
                return Err(ComposeError::NestedUnion { combinator: place.name() });
            }
            Node::Union(arms) => arms.iter().try_for_each(|arm| places(arm, Place::Arm))?,
        }
    }
    Ok(())
}

/// Whether a part may stand at a place.
fn part_in(desc: &'static VariantDesc, place: Place) -> Result<(), ComposeError> {
    let part = || desc.name.to_owned();
    // what changes how rows are finished
    let finish = match desc.normalizer {
        Normalizer::Softmax => {
            [Hook::SinkLogit, Hook::OutputTransform].into_iter().find(|h| desc.has(*h)).map(Hook::method)
        }
        _ => Some("NORMALIZER"),
    };
    match place {
        Place::Top => Ok(()),
        _ if desc.has(Hook::KvListLen) => Err(ComposeError::ListInside { combinator: place.name(), part: part() }),
        Place::Inner(_) => Ok(()),
        Place::Arm => match finish {
            Some(hook) => Err(ComposeError::Arm { part: part(), hook }),
            None => Ok(()),
        },
        Place::Mask(combinator) => {
            let other = desc.hooks.iter().map(|text| text.hook).find(|hook| !of_a_mask(*hook)).map(Hook::method);
            match finish.or(other) {
                Some(hook) => Err(ComposeError::NotAMask { combinator, part: part(), hook }),
                None => Ok(()),
            }
        }
    }
}

/// Hooks that a mask may have.
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

/// What a composition has once at most.
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

/// How rows of a composition are finished.
#[derive(Clone, Copy, Default)]
struct Finish {
    /// The part that changes the normaliser, and where its maximum starts.
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

    /// What has to be the same in every branch of `per_head`.
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
