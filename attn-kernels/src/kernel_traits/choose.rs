//! The choice of tile sizes for a kernel: the sizes that measured best on an H200, or smaller ones that fit shared
//! memory.

use attn_core::{
    dtype::{Dtype, Dtypes},
    spec::{ComputeType, DecodeBackend, Heads, KernelKind, PrefillBackend},
};

use super::cuda_cores::{cuda_core_decode, cuda_core_prefill, cuda_core_prefill_of};
use super::smem::{PIPELINE_STATE_BYTES, STATIC_BYTES, panels};
use super::{
    DTYPES, DecodePart, KernelTraits, KernelTraitsError, KernelTraitsRequest, PackedRow, cuda_cores_support,
    head_dims_are_supported, reads_kv_of,
};

impl KernelTraits {
    /// Chooses the traits of the kernel for a problem.
    ///
    /// # Errors
    ///
    /// [`KernelTraitsError`] names the unsupported sizes or types, and the supported ones.
    pub fn choose(request: &KernelTraitsRequest) -> Result<Self, KernelTraitsError> {
        let &KernelTraitsRequest {
            kind,
            head_dim,
            dtypes,
            paged,
            group,
            key_hooks,
            value_hooks,
            shared_rows,
            row_invariant,
            arch,
            ..
        } = request;
        let value_dim = request.value_dim();
        let cuda_cores = request.runs_on_cuda_cores();
        request.check(cuda_cores)?;
        let e4m3_compute = request.compute_type == ComputeType::E4m3 && kind != KernelKind::Decode;
        if e4m3_compute {
            request.check_e4m3_compute()?;
        }
        // rows of KV formats are widened to 16 bits, as those of fp8 are
        let (packed, fp8) = (request.packed(), dtypes.kv.is_fp8());
        let narrow = fp8 || packed.is_some();
        // on CUDA cores the mainloop applies the hooks, and takes every element type
        let preprocesses = kind != KernelKind::Decode && !cuda_cores;
        let values_share_keys = request.shares_rows();
        let traits = KernelTraits {
            kind,
            head_dim,
            value_dim,
            dtypes,
            paged,
            values_share_keys,
            preprocess_keys: preprocesses && (key_hooks || narrow) && !e4m3_compute,
            preprocess_values: preprocesses && (value_hooks || narrow && !values_share_keys),
            tile_rows: 128,
            tile_keys: 64,
            warps: 4,
            producer_warps: 0,
            resident: false,
            column_warps: 1,
            cuda_cores: false,
            row_warps: 1,
            stages: 2,
            warp_keys: 16,
            widened_keys: !preprocesses && request.widens_keys(cuda_cores),
            widened_values: !preprocesses && request.widens_values(cuda_cores),
            packed,
            ctas_per_sm: 2,
            mixed: None,
            shared_rows: shared_rows && kind == KernelKind::Mixed,
            e4m3_compute,
            row_invariant,
            arch,
        };
        let rewrites = key_hooks || value_hooks || packed.is_some();
        let traits = match kind {
            KernelKind::Decode if cuda_cores => {
                cuda_core_decode(traits, request.decode_tiles().rows_for(group), rewrites)
            }
            KernelKind::Prefill if cuda_cores => cuda_core_prefill(traits),
            KernelKind::Prefill if request.wants_sm90_prefill() => {
                let sm90 = traits.for_sm90_prefill().unwrap_or_else(|| traits.for_sm80_prefill());
                let resident = || sm90.for_resident_prefill();
                (request.prefill == PrefillBackend::Sm90Resident).then(resident).flatten().unwrap_or(sm90)
            }
            KernelKind::Prefill => traits.for_sm80_prefill(),
            KernelKind::Decode => traits.for_decode(request.decode_tiles().rows_for(group), rewrites),
            KernelKind::Mixed => match traits.for_sm90_mixed(request).filter(|_| !cuda_cores) {
                Some(traits) => traits,
                None => traits.for_mixed(request, cuda_cores)?,
            },
        };
        let (bytes, available) = (traits.smem_bytes() + STATIC_BYTES, arch.min_smem());
        if bytes > available {
            return Err(KernelTraitsError::SharedMemory { kind, head_dim, value_dim, arch, bytes, available });
        }
        Ok(traits)
    }

    /// Sm80 prefill: the tiles that measured best on an H200 for head dimensions 64, 128 and 256. Other head dimensions
    /// take the tiles of the next larger one, as far as they fit.
    fn for_sm80_prefill(self) -> Self {
        let (keys, values) = (panels(self.head_dim), panels(self.value_dim));
        let large = self.arch.max_smem() > 200 << 10;
        let of = |tile_rows: u32, tile_keys, warps, ctas_per_sm| KernelTraits {
            tile_rows,
            tile_keys,
            warps,
            ctas_per_sm,
            ..self
        };
        match (keys, values) {
            (..=64, ..=64) => of(128, 96, 4, 2),
            (..=128, ..=128) => of(128, 64, 4, 2),
            // as many keys as allow two CTAs per SM
            (..=256, ..=128) => {
                let tries = [of(128, 48, 4, 2), of(128, 32, 4, 2), of(128, 16, 4, 2)];
                let an_sm = if large { self.arch.max_smem() + 1024 } else { 2 * self.arch.min_smem() };
                tries.into_iter().find(|traits| 2 * (traits.smem_bytes() + 1024) <= an_sm).unwrap_or(tries[2])
            }
            (..=256, ..=256) if large => of(128, 64, 8, 1),
            (..=256, ..=256) => of(64, 32, 4, 2),
            // one CTA per SM, with as many rows and keys as fit
            _ => {
                let column_warps = values.div_ceil(256);
                let tries = [(64, 64), (64, 32), (32, 32), (32, 16), (16, 16)].map(|(tile_rows, tile_keys)| {
                    KernelTraits { column_warps, ..of(tile_rows, tile_keys, tile_rows / 16 * column_warps, 1) }
                });
                let fits = |traits: &KernelTraits| {
                    // a warp loads four rows at a time
                    let whole = traits.tile_keys.is_multiple_of(4 * traits.warps);
                    whole && traits.smem_bytes() + STATIC_BYTES <= self.arch.min_smem()
                };
                tries.into_iter().find(fits).unwrap_or(tries[4])
            }
        }
    }

    /// Sm90 prefill, if it supports the problem: a producer warpgroup and two consumer warpgroups, with as many keys as
    /// leave two pipeline stages. Head dimension 64 has three stages and three consumer warpgroups, because its softmax
    /// takes as long as its GEMMs.
    fn for_sm90_prefill(self) -> Option<Self> {
        if !self.arch.has_wgmma() || self.values_share_keys {
            return None;
        }
        let (tile_rows, tile_keys, stages) = match (panels(self.head_dim), panels(self.value_dim)) {
            _ if self.e4m3_compute => (128, 128, 3),
            (..=64, ..=64) => (192, 128, 3),
            (..=192, ..=128) => (128, 128, 2),
            (..=256, ..=256) => (128, 80, 2),
            _ => return None,
        };
        Some(KernelTraits {
            tile_rows,
            tile_keys,
            stages,
            warps: tile_rows / 16,
            producer_warps: 4,
            ctas_per_sm: 1,
            ..self
        })
    }

    /// Sm90 prefill whose keys stay in shared memory, if these traits have it: a third consumer warpgroup hides the
    /// steps of the others, since O and S are never in registers at a time. Kernels that compute in e4m3 have none, and
    /// nor do rows of other than 128 elements: for some of them ptxas lacks registers, and serialises WGMMA.
    fn for_resident_prefill(self) -> Option<Self> {
        let of_128 = [self.head_dim, self.value_dim] == [128; 2];
        let resident = KernelTraits { resident: true, tile_rows: 192, warps: 12, ..self };
        let exists = self.is_sm90_prefill() && !self.e4m3_compute && of_128;
        // warpgroups store O while others read Q
        (exists && resident.output_bytes() > 0).then_some(resident)
    }

    /// Decode: the first of the tiles below that fits, with as many CTAs per SM as it names. A cubin also runs on GPUs
    /// of the architecture with less shared memory, which must hold one CTA.
    fn for_decode(self, tile_rows: u32, rewrites: bool) -> Self {
        let row_bytes = self.key_bytes();
        let fp8 = self.dtypes.kv.is_fp8();
        let traits = KernelTraits { tile_rows, warp_keys: if row_bytes < 256 { 32 } else { 16 }, ..self };
        let (an_sm, most) = (self.arch.max_smem() + 1024, self.arch.min_smem());
        // Three CTAs with two stages have as many bytes in flight as two CTAs with three, and overlap more prologues
        // and arithmetic. Transforms of rows whose length is no power of two need too many registers for three CTAs.
        let padded = rewrites && !(traits.head_dim.is_power_of_two() && traits.value_dim.is_power_of_two());
        // So do operands that are decoded in registers beside a long row of O.
        let in_registers = traits.packed.is_some() && !(traits.widened_keys && traits.widened_values);
        let padded = padded || in_registers && traits.head_dim.max(traits.value_dim) > 128;
        let three = traits.tile_rows == 8 && (!fp8 || rewrites) && !padded;
        // One CTA of eight warps has half the workers of two CTAs of four, and so half the partial states.
        let one = traits.tile_rows == 16 && row_bytes >= 256 && traits.packed.is_none();
        let first = if three {
            (4, 2, 3)
        } else if one {
            (8, 2, 1)
        } else {
            (4, 3, 2)
        };
        let (two, few) = ([first, (4, 2, 2)], [(4, 3, 1), (4, 2, 1), (2, 2, 2), (2, 2, 1)]);
        let of = |warp_keys| {
            move |(warps, stages, ctas_per_sm)| KernelTraits { warp_keys, warps, stages, ctas_per_sm, ..traits }
        };
        // two CTAs with 16 keys per warp and stage are faster than one CTA with more
        let tries = two.map(of(traits.warp_keys)).into_iter().chain(two.map(of(16)));
        // for long rows: fewer warps with as many stages as fit, or more keys per stage so that it holds the partial
        // states
        let long = [(2, 4, 1), (2, 3, 1), (2, 2, 1), (1, 3, 1), (1, 2, 1)];
        let few = if traits.head_dim.max(traits.value_dim) > 256 { [few[0], few[1], long[0], long[1]] } else { few };
        let mut tries = tries
            .chain(few.map(of(traits.warp_keys)))
            .chain(long.map(of(traits.warp_keys)))
            .chain(few.map(of(32)))
            .chain(long.map(of(32)));
        let fits = |traits: &KernelTraits| {
            let bytes = traits.smem_bytes() + STATIC_BYTES;
            traits.holds_partials() && bytes <= most && traits.ctas_per_sm * (bytes + 1024) <= an_sm
        };
        // stages of few bytes may not hold the partial states; decoded rows do
        let decoded = || self.decodes_rows().map_or(traits, |decoded| decoded.for_decode(tile_rows, rewrites));
        tries.find(fits).unwrap_or_else(decoded)
    }

    /// The same kernel with all rows of KV formats decoded; `None` if they are.
    fn decodes_rows(self) -> Option<Self> {
        let decoded = KernelTraits { widened_keys: true, widened_values: !self.values_share_keys, ..self };
        (self.packed.is_some() && decoded != self).then_some(decoded)
    }

    /// Mixed: sm80 prefill with four warps, or prefill on CUDA cores, and a decode part with as many warps, whose
    /// pipeline is as deep as two CTAs per SM allow.
    fn for_mixed(self, request: &KernelTraitsRequest, cuda_cores: bool) -> Result<Self, KernelTraitsError> {
        let KernelTraits { head_dim, value_dim, dtypes, arch, .. } = self;
        let unsupported = KernelTraitsError::Mixed { head_dim, kv: dtypes.kv, arch };
        let prefill = KernelTraits { kind: KernelKind::Prefill, ..self };
        let tiles: Vec<_> = if cuda_cores {
            [4, 2, 1].into_iter().filter_map(|warps| cuda_core_prefill_of(prefill, warps)).collect()
        } else {
            match prefill.for_sm80_prefill() {
                tiles if tiles.warps == 4 && tiles.column_warps == 1 => vec![tiles],
                _ if head_dim.max(value_dim) <= 256 => {
                    vec![KernelTraits { tile_rows: 64, tile_keys: 32, ..prefill }]
                }
                _ => return Err(unsupported),
            }
        };
        let decode = request.decode_tiles();
        let on_cuda_cores = decode.backend == DecodeBackend::CudaCores;
        let of = |tiles: KernelTraits, (warp_keys, stages), decoded: bool| {
            let part = DecodePart {
                tile_rows: decode.rows_for(request.group),
                cuda_cores: on_cuda_cores,
                stages,
                warp_keys,
                widened_keys: decoded || request.widens_keys(on_cuda_cores),
                widened_values: decoded && !self.values_share_keys || request.widens_values(on_cuda_cores),
            };
            KernelTraits { kind: self.kind, mixed: Some(part), ..tiles }
        };
        let wide = if self.key_bytes() < 256 { 32 } else { 16 };
        let tries: &[_] = match decode.backend {
            DecodeBackend::TensorCores => &[(wide, 3), (wide, 2), (16, 3), (16, 2)],
            DecodeBackend::CudaCores => &[(wide, 3), (wide, 2), (8, 3), (8, 2), (32, 2), (4, 2)],
        };
        let tries = |decoded| {
            tiles.iter().flat_map(move |&tiles| tries.iter().map(move |&of_step| of(tiles, of_step, decoded)))
        };
        // as in decode, decoded rows hold partial states that stages do not
        let tries: Vec<_> = match self.packed {
            Some(_) => tries(false).chain(tries(true)).collect(),
            None => tries(false).collect(),
        };
        let (an_sm, most) = (arch.max_smem() + 1024, arch.min_smem());
        let fits = |ctas: u32| {
            move |traits: &KernelTraits| {
                let (decode, bytes) = (traits.decode_part(), traits.smem_bytes() + STATIC_BYTES);
                decode.holds_partials() && bytes <= most && ctas * (bytes + 1024) <= an_sm
            }
        };
        let two = tries.iter().find(|traits| fits(2)(traits)).map(|&traits| KernelTraits { ctas_per_sm: 2, ..traits });
        let one =
            || tries.iter().find(|traits| fits(1)(traits)).map(|&traits| KernelTraits { ctas_per_sm: 1, ..traits });
        two.or_else(one).ok_or(unsupported)
    }

    /// Mixed with sm90 prefill, if it supports the problem: one CTA an SM, and a decode part of all its warps, whose
    /// pipeline is as deep as their stages fit shared memory. Stages of rows longer than 128 elements do not fit it,
    /// and prefill has no rows of several requests.
    fn for_sm90_mixed(self, request: &KernelTraitsRequest) -> Option<Self> {
        let (decode, rows) = (request.decode_tiles(), request.decode_tiles().rows_for(request.group));
        let supported = request.prefill == PrefillBackend::Sm90
            && decode.backend == DecodeBackend::TensorCores
            && self.packed.is_none()
            && !(request.key_lists || self.shared_rows)
            && self.head_dim.max(self.value_dim) <= 128;
        let prefill = KernelTraits { kind: KernelKind::Prefill, ..self }.for_sm90_prefill().filter(|_| supported)?;
        let of = |(warp_keys, stages)| {
            let part = DecodePart {
                tile_rows: rows,
                cuda_cores: false,
                stages,
                warp_keys,
                widened_keys: request.widens_keys(false),
                widened_values: request.widens_values(false),
            };
            KernelTraits { kind: self.kind, mixed: Some(part), ..prefill }
        };
        let wide = if self.key_bytes() < 256 { 32 } else { 16 };
        let fits = |traits: &KernelTraits| {
            traits.decode_part().holds_partials() && traits.smem_bytes() + PIPELINE_STATE_BYTES <= self.arch.min_smem()
        };
        [(wide, 3), (wide, 2), (16, 3), (16, 2)].map(of).into_iter().find(fits)
    }

    /// Rows of the largest decode Q tile of a mixed kernel for a problem, whatever its kind and group; those of the
    /// largest decode tile where there is no mixed kernel.
    pub fn max_mixed_rows(request: &KernelTraitsRequest) -> u32 {
        let max = request.decode_tiles().max_rows();
        let exists =
            |group| KernelTraits::choose(&KernelTraitsRequest { kind: KernelKind::Mixed, group, ..*request }).is_ok();
        if max > 8 && !exists(max) && exists(8) { 8 } else { max }
    }
}

/// Bytes of the longest rows of a KV format: offsets within a stage are computed in 32 bits.
const MAX_ROW_BYTES: u32 = 1 << 16;

impl KernelTraitsRequest {
    /// Whether it asks for sm90 prefill of a problem that has it on some GPU.
    fn wants_sm90_prefill(&self) -> bool {
        matches!(self.prefill, PrefillBackend::Sm90 | PrefillBackend::Sm90Resident) && !self.key_lists
    }

    /// Whether decode on CUDA cores, or on tensor cores, has a second buffer for keys: it transforms rows of fp8, and
    /// decodes rows of KV formats. On tensor cores it does not decode rows that no hook changes: MMAs take linear
    /// codes, and lanes decode other operands in registers, of whole blocks of dims.
    fn widens_keys(&self, cuda_cores: bool) -> bool {
        let Some([keys, _]) = self.packed() else { return self.dtypes.kv.is_fp8() && self.key_hooks };
        let tile_rows = self.decode_tiles().rows_for(self.group);
        let in_registers = keys.multiplies_codes(self.head_dim, tile_rows) || self.head_dim.is_multiple_of(32);
        cuda_cores || self.key_hooks || self.shares_rows() || !in_registers
    }

    /// The same for values.
    fn widens_values(&self, cuda_cores: bool) -> bool {
        let Some([_, values]) = self.packed() else { return self.dtypes.kv.is_fp8() && self.value_hooks };
        let (dim, tile_rows) = (self.value_dim(), self.decode_tiles().rows_for(self.group));
        let in_registers = values.multiplies_codes(dim, tile_rows) || dim.is_multiple_of(64);
        !self.shares_rows() && (cuda_cores || self.value_hooks || !in_registers)
    }

    /// Whether values are the first elements of keys, and no hook rewrites either.
    fn shares_rows(&self) -> bool {
        self.head_dim_vo.shares_keys() && !self.key_hooks && !self.value_hooks
    }

    /// Refuses compute type e4m3 where no kernel has it.
    fn check_e4m3_compute(&self) -> Result<(), KernelTraitsError> {
        let &KernelTraitsRequest { kind, head_dim, dtypes, prefill, arch, .. } = self;
        let hooks = self.key_hooks || self.value_hooks || self.key_lists;
        let shapes = head_dim == 128 && self.head_dim_vo.dim(Heads { qo: 1, kv: 1, head_dim }) == 128;
        let types = DTYPES.contains(&dtypes.qo) && dtypes.kv == Dtype::E4m3 && dtypes.format.is_none();
        let kernel = kind == KernelKind::Prefill && self.wants_sm90_prefill() && arch.has_wgmma();
        if kernel && shapes && types && !hooks && !self.head_dim_vo.shares_keys() {
            return Ok(());
        }
        Err(KernelTraitsError::ComputeType { kind, prefill, head_dim, dtypes, arch })
    }

    /// Refuses sizes, types and architectures that CUDA cores, or that tensor cores, have no kernels for.
    fn check(&self, cuda_cores: bool) -> Result<(), KernelTraitsError> {
        let &KernelTraitsRequest { kind, head_dim, dtypes, arch, .. } = self;
        let value_dim = self.value_dim();
        let on_cuda_cores = !cuda_cores && cuda_cores_support(head_dim, value_dim, dtypes);
        let supported = match cuda_cores {
            true => cuda_cores_support(head_dim, value_dim, Dtypes::f32()),
            false => head_dims_are_supported(head_dim, value_dim),
        };
        if !supported {
            return Err(KernelTraitsError::HeadDim { kind, head_dim, value_dim, on_cuda_cores });
        }
        let supported = cuda_cores && !dtypes.qo.is_fp8() || DTYPES.contains(&dtypes.qo);
        if !reads_kv_of(dtypes) || !supported {
            return Err(KernelTraitsError::Dtypes { kind, dtypes, on_cuda_cores });
        }
        let rows = self.packed().into_iter().flatten().zip(["keys", "values"]);
        for (PackedRow { codes, side, .. }, of) in rows {
            let copied =
                codes.is_multiple_of(8) && side.is_multiple_of(4) && codes <= MAX_ROW_BYTES && side <= MAX_ROW_BYTES;
            if !copied {
                return Err(KernelTraitsError::Row { of, codes, side });
            }
        }
        if !cuda_cores && !arch.has_mma() {
            return Err(KernelTraitsError::NoMma { kind, arch });
        }
        Ok(())
    }
}
