// The products of decode over rows of KV formats, in place of decode/dense_products.cuh: of codes, or of fragments that
// lanes decode, or that are loaded from decoded rows.
#pragma once
#include "decode/code_products.cuh"
#include "decode/decoded_operands.cuh"
#include "decode/fragment_products.cuh"

using KeyOperands = Choose<FRAGMENT_KEYS, DecodedKeyFragments, KeyFragments<KeyElem>>;
using ValueOperands = Choose<FRAGMENT_VALUES, DecodedValueFragments, ValueFragments<ValueElem>>;
using KeyProduct = Choose<LINEAR_KEYS, KeyCodeProduct, KeyMma<KeyOperands>>;
using ValueProduct = Choose<LINEAR_VALUES, ValueCodeProduct, ValueMma<ValueOperands, ValueUnit>>;
