//! The bodies of the member functions of `per_head`, where a table gives the branch of each head.
//!
//! Row hooks of all branches run. The row ignores the writes of branches that are not those of its head: rows of one
//! warp belong to several heads, and reductions over a row need every lane.

use attn_core::lang::Hook;

use super::VariantError;
use super::combine::class_of;
use super::hooks::MemberFunction;
use super::shape::Shape;

/// A function that tells whether a head of the tile has a branch.
pub(super) const HELPER: &str = "  ATTN_FN bool in_tile(const QueryTile& tile, int branch) const {
    if (tile.qo_head_min > tile.qo_head_max) return false;
    const int last = clamp_index(tile.qo_head_max, heads_.shape[0]);
    for (int head = clamp_index(tile.qo_head_min, heads_.shape[0]); head <= last; ++head)
      if (heads_[head] == branch) return true;
    return false;
  }
";

/// Refuses a branch whose row hook stores, because ignoring its row does not undo the store.
pub(super) fn check(function: MemberFunction, branches: &[Shape<'_>]) -> Result<(), VariantError> {
    let MemberFunction::Hook(hook @ Hook::OutputTransform) = function else { return Ok(()) };
    let stores = |shape: &&Shape<'_>| shape.has(hook) && shape.stores();
    match branches.iter().find(stores) {
        Some(shape) => Err(VariantError::HeadStores { branch: shape.to_string() }),
        None => Ok(()),
    }
}

/// The body of a member function.
pub(super) fn body(function: MemberFunction, branches: &[Shape<'_>]) -> String {
    let has: Vec<usize> = (0..branches.len()).filter(|&i| function.is_in(&branches[i])).collect();
    let call = function.call(false);
    let table = match function {
        MemberFunction::Hook(Hook::KeyTransform | Hook::ValueTransform) => "kv_heads_[at.kv_head]",
        _ => "heads_[at.qo_head]",
    };
    let chosen = format!("    const int branch = {table};\n");
    match function {
        MemberFunction::TileClass => {
            let mut text = String::from("    TileClass all = TileClass::Partial;\n    bool any = false;\n");
            for (i, shape) in branches.iter().enumerate() {
                let class = class_of(&format!("part{i}"), shape);
                text += &format!("    if (in_tile(tile, {i})) {{\n      const TileClass one = {class};\n");
                text += "      all = any && one != all ? TileClass::Partial : one;\n      any = true;\n    }\n";
            }
            text + "    return all;\n"
        }
        MemberFunction::Hook(Hook::KvRange) => {
            let mut text = String::from("    Tuple2<int, int> all{2147483647, I32_MIN};\n");
            for (i, shape) in branches.iter().enumerate() {
                let keys =
                    if function.is_in(shape) { format!("part{i}.{call}") } else { function.trivial().to_owned() };
                text += &format!("    if (in_tile(tile, {i})) {{\n      const Tuple2<int, int> keys = {keys};\n");
                text += "      all = {min(all.x, keys.x), max(all.y, keys.y)};\n    }\n";
            }
            text + &format!("    return all.x > all.y ? {} : all;\n", function.trivial())
        }
        MemberFunction::Hook(
            Hook::QueryTransform | Hook::KeyTransform | Hook::ValueTransform | Hook::OutputTransform,
        ) => {
            let row = &call[call.find('(').map_or(0, |i| i + 1)..][..1];
            let each = has.iter().map(|i| {
                let call = call.replacen(&format!("({row},"), "(row,", 1);
                format!("    {{\n      HeadRow<R> row{{{row}, branch == {i}}};\n      part{i}.{call};\n    }}\n")
            });
            chosen + &each.collect::<String>()
        }
        MemberFunction::LogitsBound => {
            let each = has.iter().map(|i| format!("part{i}.{call}"));
            let most = each.reduce(|most, one| format!("bound::most({most}, {one})"));
            format!("    return {};\n", most.unwrap_or_else(|| function.trivial().to_owned()))
        }
        MemberFunction::LogitsBias => {
            let each = has.iter().map(|i| format!("    if (branch == {i}) return float(part{i}.{call});\n"));
            chosen + &each.collect::<String>() + &format!("    return {};\n", function.trivial())
        }
        _ => {
            let each = has.iter().map(|i| format!("    if (branch == {i}) return part{i}.{call};\n"));
            chosen + &each.collect::<String>() + &format!("    return {};\n", function.trivial())
        }
    }
}
