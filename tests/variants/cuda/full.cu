#line _ "variant"
namespace lang {

/// Full attention: every query attends to every key; the identity of composition.
///
/// `O = softmax(q k^T * sm_scale) v` ("Attention Is All You Need", arXiv 1706.03762).
struct Full {
#line _ "variant"
};
