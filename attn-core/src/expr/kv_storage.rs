//! How keys and values are stored.

use crate::dtype::{Dtypes, DtypesError};
use crate::lang::Hook;
use crate::lang::kv_format::{KvFormatId, KvFormats};
use crate::spec::{HeadDimVo, KvStored};

/// How the keys and values of a variant are stored.
#[derive(Clone, Default, PartialEq)]
pub(super) struct KvStorage {
    pub(super) stored: KvStored,
    /// `None` if their elements are numbers.
    pub(super) formats: Option<KvFormats>,
}

impl KvStorage {
    /// Whether the hook is skipped because keys and values are stored transformed.
    pub(super) fn is_stored(&self, hook: Hook) -> bool {
        self.stored == KvStored::Transformed && matches!(hook, Hook::KeyTransform | Hook::ValueTransform)
    }

    /// The formats that these or the types name, and the types with them.
    pub(super) fn over(
        &self,
        dtypes: Dtypes,
        head_dim_vo: HeadDimVo,
    ) -> Result<(Option<KvFormats>, Dtypes), DtypesError> {
        let of_variant = self.formats.as_ref().map(KvFormats::id);
        if let (Some(variant), Some(dtypes)) = (of_variant, dtypes.format)
            && variant != dtypes
        {
            return Err(DtypesError::TwoFormats { variant, dtypes });
        }
        let formats = self.formats.clone().or_else(|| dtypes.format.map(KvFormatId::formats));
        let dtypes = Dtypes { format: formats.as_ref().map(KvFormats::id), ..dtypes };
        dtypes.check_format()?;
        let formats = match formats {
            Some(formats) if head_dim_vo.shares_keys() => {
                if formats.keys() != formats.values() {
                    return Err(DtypesError::Shared { format: formats.id() });
                }
                Some(formats.shared_with_keys())
            }
            formats => formats,
        };
        Ok((formats, dtypes))
    }

    /// Storage as `other`, in the own formats where there are any.
    pub(super) fn like(self, other: &KvStorage) -> Self {
        let shared = other.formats.as_ref().is_some_and(KvFormats::shares_keys);
        let own = self.formats.map(|own| if shared { own.shared_with_keys() } else { own });
        KvStorage { stored: other.stored, formats: own.or_else(|| other.formats.clone()) }
    }

    /// Whether both have formats of the same rows.
    pub(super) fn has_formats_of(&self, other: &KvStorage) -> bool {
        let of = |storage: &KvStorage| storage.formats.as_ref().map(|formats| (formats.id(), formats.shares_keys()));
        of(self) == of(other)
    }
}
