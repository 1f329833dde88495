//! The rotary embedding of a configuration: `rope_theta` and `rope_scaling`, or both in `rope_parameters`; Gemma 3 has
//! an object there for each kind of layer.

use super::config::{ABOVE_ZERO, Config, Kind, LENGTH, NUMBER, TRUTH, wrong};
use super::text::Text;
use super::{ModelError, error::shown, understood};
use crate::Variant;
use crate::lang::{Dims, Tensor1, VariantParams};
use crate::stock::{Llama3Rope, Rope, Yarn};

/// The part of a head that is rotated.
const PORTION: Kind<f64> =
    Kind { expected: "a number from 0 to 1", read: |value| value.as_f64().filter(|x| (0.0..=1.0).contains(x)) };

/// The rotary embedding of all layers; `default` are the parameters of a file without any.
pub(super) fn read(text: &Text<'_>, default: Option<&Config<'_>>) -> Result<Variant, ModelError> {
    let config = text.config;
    let scaling = config.object("rope_scaling")?.filter(|scaling| !scaling.is_empty());
    let parameters = config.object("rope_parameters")?;
    let of = |own: Option<&Config<'_>>| {
        let theta = theta(own, config, "rope_theta", text.class.rope_theta)?;
        Rotary { text, theta, of_a_kind: false }.variant(own)
    };
    match (scaling, parameters) {
        (Some(scaling), None) => of(Some(&scaling)),
        (Some(scaling), Some(parameters)) if parameters.is_empty() => of(Some(&scaling)),
        (Some(scaling), Some(parameters)) => same(of(Some(&scaling))?, &of(Some(&parameters))?),
        (None, Some(parameters)) => of(Some(&parameters)),
        (None, None) => of(default),
    }
}

/// The rotary embeddings of layers with full attention and of those with a window, in Gemma 3.
pub(super) fn of_kinds(text: &Text<'_>) -> Result<[Variant; 2], ModelError> {
    let config = text.config;
    let kinds = config.object("rope_parameters")?;
    let [full, sliding] =
        ["full_attention", "sliding_attention"].map(|kind| kinds.as_ref().map_or(Ok(None), |kinds| kinds.object(kind)));
    if let Some((name, _)) = kinds.as_ref().and_then(|kinds| kinds.unread().next()) {
        let expected = "an object with `full_attention` and `sliding_attention`";
        return Err(wrong("rope_parameters", expected, name.to_owned()));
    }
    let of = |own: Option<&Config<'_>>, outer, default| {
        Rotary { text, theta: theta(own, config, outer, default)?, of_a_kind: true }.variant(own)
    };
    let full = full?;
    let global = |own| of(own, "rope_theta", text.class.rope_theta);
    let local = of(sliding?.as_ref(), "rope_local_base_freq", 10_000.0)?;
    // the older field is of the layers with full attention
    let scaling = config.object("rope_scaling")?.filter(|scaling| !scaling.is_empty());
    let global = match (scaling, full) {
        (None, full) => global(full.as_ref())?,
        (Some(scaling), full) => {
            if let (None, Some(kind)) = (scaling.text("rope_type")?, scaling.text("type")?) {
                let known = "no value in `rope_scaling` of this model; `rope_type` names the embedding there";
                return Err(ModelError::Unsupported { field: "type".to_owned(), got: kind.to_owned(), known });
            }
            let older = global(Some(&scaling))?;
            match full {
                Some(full) => same(older, &global(Some(&full))?)?,
                None => older,
            }
        }
    };
    Ok([global, local])
}

/// Refuses a file whose two fields differ: the class takes one of them without a word.
fn same(scaling: Variant, parameters: &Variant) -> Result<Variant, ModelError> {
    match scaling == *parameters {
        true => Ok(scaling),
        false => Err(ModelError::Unsupported {
            field: "rope_scaling".to_owned(),
            got: shown(&scaling.to_string().into()),
            known: "what `rope_parameters` of the same file says",
        }),
    }
}

/// `rope_theta` of the parameters, else the field `outer` beside them, else the default.
fn theta(own: Option<&Config<'_>>, config: &Config<'_>, outer: &str, default: f32) -> Result<f32, ModelError> {
    // understood also where it does not matter
    config.mark_read(&[outer]);
    match own.map_or(Ok(None), |own| own.given("rope_theta", &ABOVE_ZERO))? {
        Some(theta) => Ok(theta),
        None => Ok(config.given(outer, &ABOVE_ZERO)?.unwrap_or(default)),
    }
}

/// A rotary embedding.
struct Rotary<'t, 'a> {
    text: &'t Text<'a>,
    theta: f32,
    /// Whether it is of one kind of layers.
    of_a_kind: bool,
}

impl Rotary<'_, '_> {
    /// The embedding with these parameters; unscaled without any.
    fn variant(&self, own: Option<&Config<'_>>) -> Result<Variant, ModelError> {
        let Some(own) = own else { return Ok(self.plain(1.0).into()) };
        let rope = match own.text("rope_type")?.or(own.text("type")?).unwrap_or("default") {
            "default" => self.plain(1.0).into(),
            "linear" => self.plain(factor(own)?).into(),
            "proportional" => self.proportional(own)?.into(),
            "llama3" => self.llama3(own)?.into(),
            "yarn" => self.yarn(own)?.into(),
            other => {
                let (field, got) = ("rope_type".to_owned(), other.to_owned());
                let known = "default, linear, llama3, proportional, yarn";
                return Err(ModelError::Unsupported { field, got, known });
            }
        };
        understood::check_rope(own)?;
        Ok(rope)
    }

    fn plain(&self, scale: f32) -> Rope {
        Rope { theta: self.theta, scale, interleaved: self.text.class.interleaved, ..Rope::default() }
    }

    /// The frequencies of the first `pairs`, none of the others. Some variants have no parameters that give them.
    fn frequencies(&self, pairs: usize, scale: f32) -> Tensor1<f32> {
        let head_dim = self.text.heads.head_dim as usize;
        let frequency = |i: usize| match i < pairs {
            true => (f64::from(self.theta).powf(-2.0 * i as f64 / head_dim as f64) / f64::from(scale)) as f32,
            false => 0.0,
        };
        Tensor1::from((0..head_dim / 2).map(frequency).collect::<Vec<_>>())
    }

    fn proportional(&self, own: &Config<'_>) -> Result<Rope, ModelError> {
        let scale = own.given("factor", &ABOVE_ZERO)?.unwrap_or(1.0);
        let outer = self.text.config.or_null("partial_rotary_factor", &PORTION)?.flatten();
        let portion = own.given("partial_rotary_factor", &PORTION)?.or(outer).unwrap_or(1.0);
        let pairs = (portion * f64::from(self.text.heads.head_dim)) as usize / 2;
        Ok(match portion < 1.0 {
            true => Rope { inv_freq: self.frequencies(pairs, scale), ..self.plain(scale) },
            false => self.plain(scale),
        })
    }

    fn llama3(&self, own: &Config<'_>) -> Result<Llama3Rope, ModelError> {
        let needed = |field| own.given(field, &NUMBER)?.ok_or(ModelError::Missing { field });
        Ok(Llama3Rope {
            theta: self.theta,
            factor: factor(own)?,
            low_freq_factor: needed("low_freq_factor")?,
            high_freq_factor: needed("high_freq_factor")?,
            original_len: self.original_len(own)?,
            interleaved: self.text.class.interleaved,
            ..Llama3Rope::default()
        })
    }

    fn yarn(&self, own: &Config<'_>) -> Result<Yarn, ModelError> {
        let original_len = self.original_len(own)?;
        let given = own.or_null("factor", &ABOVE_ZERO)?.ok_or(ModelError::Missing { field: "factor" })?;
        let factor = match given {
            Some(factor) => factor,
            None => (f64::from(self.longest()?) / f64::from(original_len)) as f32,
        };
        // 0 is no number of turns; the class takes the default then
        let turns = |field, default| {
            let given = own.or_null(field, &NUMBER)?.flatten();
            Ok::<_, ModelError>(given.filter(|&turns| turns != 0.0).unwrap_or(default))
        };
        let truncate = own.or_null("truncate", &TRUTH)?.unwrap_or(Some(true)).unwrap_or(false);
        if self.of_a_kind && !truncate {
            let (field, got) = ("truncate".to_owned(), "false".to_owned());
            let known = "true, where kinds of layers have parameters of their own";
            return Err(ModelError::Unsupported { field, got, known });
        }
        let mut yarn = Yarn {
            theta: self.theta,
            factor,
            original_len,
            beta_fast: turns("beta_fast", 32.0)?,
            beta_slow: turns("beta_slow", 1.0)?,
            truncate,
            mscale: 0.1,
            interleaved: self.text.class.interleaved,
            inv_freq: Tensor1::unset(),
        };
        if let Some(wanted) = attention_factor(own, f64::from(factor))? {
            // rows are multiplied by `mscale * ln(factor) + 1`: near a factor of 1 its frequencies are written down, so
            // that another factor gives that product; parameters that have no frequencies are refused later
            let dims = Dims { head_dim: Some(self.text.heads.head_dim.into()), ..Dims::default() };
            let mut bound = yarn.clone();
            if factor < 1.1 && bound.bind(&dims).is_ok() {
                yarn.inv_freq = Tensor1::from(bound.inv_freq.as_slice());
                yarn.factor = std::f32::consts::E;
            }
            yarn.mscale = ((wanted - 1.0) / f64::from(yarn.factor).ln()) as f32;
        }
        Ok(yarn)
    }

    /// Positions of the pre-training. Beside the parameters is before within them, except where kinds of layers have
    /// parameters of their own.
    fn original_len(&self, own: &Config<'_>) -> Result<i32, ModelError> {
        const FIELD: &str = "original_max_position_embeddings";
        let outer = if self.of_a_kind { None } else { self.text.config.given(FIELD, &LENGTH)? };
        own.mark_read(&[FIELD]);
        match outer {
            Some(outer) => Ok(outer),
            None => own.given(FIELD, &LENGTH)?.map_or_else(|| self.longest(), Ok),
        }
    }

    fn longest(&self) -> Result<i32, ModelError> {
        let given = self.text.config.given("max_position_embeddings", &LENGTH)?;
        Ok(given.unwrap_or(self.text.class.max_position_embeddings))
    }
}

fn factor(own: &Config<'_>) -> Result<f32, ModelError> {
    own.given("factor", &ABOVE_ZERO)?.ok_or(ModelError::Missing { field: "factor" })
}

/// What YaRN multiplies rotated rows by, unless it is `0.1 ln(factor) + 1`.
fn attention_factor(own: &Config<'_>, factor: f64) -> Result<Option<f64>, ModelError> {
    let number = |field| Ok::<_, ModelError>(own.or_null(field, &NUMBER)?.flatten().map(f64::from));
    let given = number("attention_factor")?;
    let pair = ["mscale", "mscale_all_dim"].map(number);
    let [a, b] = pair.map(|given| given.map(|given| given.filter(|&mscale| mscale != 0.0)));
    let length = |mscale: f64| if factor > 1.0 { 0.1 * mscale * factor.ln() + 1.0 } else { 1.0 };
    Ok(match (given, a?, b?) {
        (Some(given), ..) => Some(given),
        (None, Some(a), Some(b)) => Some(length(a) / length(b)),
        _ => None,
    })
}
