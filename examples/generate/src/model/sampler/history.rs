//! What the device holds of the texts of each row: which token occurred how often, and which ones are allowed.

use std::sync::Arc;

use crate::model::SampleRow;

/// The bit of a token's count that says that the prompt has it.
const IN_PROMPT: u32 = 1 << 31;

/// What the host knows of counts and masks on the device, row by row.
#[derive(Debug)]
pub(super) struct History {
    /// The text that the counts of a row are of.
    counted: Vec<Option<Text>>,
    /// The text of a row whose token is being drawn. A step that fails leaves nothing that is known.
    pending: Vec<Option<Text>>,
    /// The mask of a row; `None` where all tokens are allowed.
    allowed: Vec<Option<Arc<[u32]>>>,
}

#[derive(Debug, PartialEq, Eq)]
struct Text {
    prompt: Vec<u32>,
    generated: Vec<u32>,
}

impl History {
    /// Of rows whose counts are unknown, and which allow all tokens.
    pub(super) fn new(rows: usize) -> Self {
        let none = || (0..rows).map(|_| None).collect();
        History { counted: none(), pending: none(), allowed: vec![None; rows] }
    }

    /// Begins a step whose launch counts tokens. What a step that failed has counted stays unknown.
    pub(super) fn begin(&mut self) {
        self.pending.fill_with(|| None);
    }

    /// A launch counts the token of a row, for the text of `sample` if it is given. Returns whether the device has
    /// other counts, and those of the text must be uploaded.
    pub(super) fn count(&mut self, row: usize, sample: Option<&SampleRow<'_>>) -> bool {
        let known = self.counted[row].take();
        let Some(sample) = sample else { return false };
        let is_same = |text: &Text| text.prompt == sample.prompt && text.generated == sample.generated;
        let known = known.filter(is_same);
        let is_new = known.is_none();
        let text = || Text { prompt: sample.prompt.to_vec(), generated: sample.generated.to_vec() };
        self.pending[row] = Some(known.unwrap_or_else(text));
        is_new
    }

    /// The tokens that were drawn, and counted on the device.
    pub(super) fn drawn(&mut self, ids: &[i32]) {
        for (row, pending) in self.pending.iter_mut().enumerate() {
            if let Some(mut text) = pending.take() {
                text.generated.extend(ids.get(row).and_then(|&id| u32::try_from(id).ok()));
                self.counted[row] = Some(text);
            }
        }
    }

    /// A launch reads the mask of a row. Returns whether the device has another one, and it must be uploaded.
    pub(super) fn allow(&mut self, row: usize, mask: Option<&Arc<[u32]>>) -> bool {
        let is_same = match (&self.allowed[row], mask) {
            (None, None) => true,
            (Some(known), Some(mask)) => Arc::ptr_eq(known, mask),
            _ => false,
        };
        if !is_same {
            self.allowed[row] = mask.cloned();
        }
        !is_same
    }
}

/// How often each token was generated, and whether the prompt has it.
pub(super) fn counts(row: &SampleRow<'_>, vocab: usize) -> Vec<u32> {
    let mut counts = vec![0; vocab];
    let mut each = |tokens: &[u32], change: &dyn Fn(&mut u32)| {
        tokens.iter().for_each(|&token| counts.get_mut(token as usize).into_iter().for_each(change));
    };
    each(row.prompt, &|count| *count |= IN_PROMPT);
    each(row.generated, &|count| *count += 1);
    counts
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::sampling::SamplingParams;

    #[test]
    fn counts_are_uploaded_once_for_each_text() {
        let (params, mut history) = (SamplingParams::default(), History::new(2));
        let row = |generated| SampleRow { row: 0, position: 0, params: &params, prompt: &[1, 2], generated };
        assert!(history.count(0, Some(&row(&[]))), "a new text");
        assert!(!history.count(1, None), "padding");
        history.drawn(&[7, 9]);
        assert!(!history.count(0, Some(&row(&[7]))), "the device has counted 7");
        history.drawn(&[8]);
        assert!(history.count(0, Some(&row(&[7, 3]))), "8 was a wrong guess");
        // the step fails, so that nothing was drawn
        history.begin();
        assert!(history.count(0, Some(&row(&[7, 3]))));
        history.drawn(&[-1]);
        assert!(!history.count(0, Some(&row(&[7, 3]))), "nothing was counted for id -1");
        history.drawn(&[4]);
        assert!(!history.count(0, None), "the launch counts for another text");
        history.drawn(&[5]);
        assert!(history.count(0, Some(&row(&[7, 3, 4]))));
    }

    #[test]
    fn masks_are_uploaded_when_they_change() {
        let (mut history, mask): (_, Arc<[u32]>) = (History::new(1), Arc::new([3]));
        assert!(!history.allow(0, None), "all are allowed at first");
        assert!(history.allow(0, Some(&mask)) && !history.allow(0, Some(&mask)));
        assert!(history.allow(0, Some(&Arc::from([3]))), "another mask, perhaps with other bits");
        assert!(history.allow(0, None));
    }
}
