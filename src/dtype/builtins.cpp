// The built-in descriptors: constant addresses, contents constructed once in registration order.
#include <array>
#include <memory>

#include "orlop/dtype/compound.hpp"
#include "registry.hpp"

namespace orlop::inline v0 {

namespace {

template <class T>
using Builtin = detail::Immortal<detail::Draft<T>>;

constinit Builtin<DTypeCategory> any, floating, integer;
constinit Builtin<SimpleDType> bool8, int32, int8, float32, float64, e8m0, e5m2, e4m3, e3m2, e2m3, e2m1;
constinit Builtin<BlockScaledDType> mxfp8_e4m3, mxfp8_e5m2, mxint8, mxfp6_e3m2, mxfp6_e2m3, mxfp4, nvfp4;

std::array<const DType*, 21> in_order{};

}  // namespace

std::span<const DType* const> builtin_dtypes() noexcept { return in_order; }

namespace dtypes {
constinit const DTypeCategory& Any = any.value;
constinit const DTypeCategory& Floating = floating.value;
constinit const DTypeCategory& Integer = integer.value;
constinit const SimpleDType& Bool = bool8.value;
constinit const SimpleDType& Int32 = int32.value;
constinit const SimpleDType& Int8 = int8.value;
constinit const SimpleDType& Float32 = float32.value;
constinit const SimpleDType& Float64 = float64.value;
constinit const SimpleDType& E8M0 = e8m0.value;
constinit const SimpleDType& E5M2 = e5m2.value;
constinit const SimpleDType& E4M3 = e4m3.value;
constinit const SimpleDType& E3M2 = e3m2.value;
constinit const SimpleDType& E2M3 = e2m3.value;
constinit const SimpleDType& E2M1 = e2m1.value;
constinit const BlockScaledDType& MXFP8_E4M3 = mxfp8_e4m3.value;
constinit const BlockScaledDType& MXFP8_E5M2 = mxfp8_e5m2.value;
constinit const BlockScaledDType& MXINT8 = mxint8.value;
constinit const BlockScaledDType& MXFP6_E3M2 = mxfp6_e3m2.value;
constinit const BlockScaledDType& MXFP6_E2M3 = mxfp6_e2m3.value;
constinit const BlockScaledDType& MXFP4 = mxfp4.value;
constinit const BlockScaledDType& NVFP4 = nvfp4.value;
}  // namespace dtypes

namespace detail {

BuiltinConstruction::BuiltinConstruction() {
  static const bool done = [] {
    std::size_t count = 0;
    const auto build = [&]<class T>(Builtin<T>& place, StorageType storage_type, const char* name,
                                    T::Options options) {
      DType& dtype = *std::construct_at(&place.value, name, std::move(options));
      dtype.storage_type_ = storage_type;
      const Structure structure = dtype.structure();
      DTypeRegistry::instance().add(dtype, dtype.is_compound() ? &structure : nullptr);
      in_order.at(count++) = &dtype;
    };
    const auto category = [&](Builtin<DTypeCategory>& place, const char* name, CategoryRef above,
                              bool opaque) {
      build(place, StorageType::other, name, {.supertype = above, .opaque_storage = opaque});
    };
    const auto simple = [&](Builtin<SimpleDType>& place, const char* name, Index bits, CategoryRef above,
                            StorageType storage_type = StorageType::other) {
      build(place, storage_type, name, {.bits = bits, .supertype = above});
    };
    const auto format = [&](Builtin<BlockScaledDType>& place, const char* name, SimpleRef element,
                            std::vector<Level> levels) {
      build(place, StorageType::other, name, {.element = element, .levels = std::move(levels)});
    };
    category(any, "Any", {}, true);
    category(floating, "Floating", dtypes::Any, true);
    category(integer, "Integer", dtypes::Any, false);
    simple(bool8, "Bool", 8, dtypes::Any, StorageType::bool8);
    simple(int32, "Int32", 32, dtypes::Integer, StorageType::int32);
    simple(int8, "Int8", 8, dtypes::Integer);
    simple(float32, "Float32", 32, dtypes::Floating, StorageType::float32);
    simple(float64, "Float64", 64, dtypes::Floating);
    simple(e8m0, "E8M0", 8, dtypes::Floating);
    simple(e5m2, "E5M2", 8, dtypes::Floating);
    simple(e4m3, "E4M3", 8, dtypes::Floating);
    simple(e3m2, "E3M2", 6, dtypes::Floating);
    simple(e2m3, "E2M3", 6, dtypes::Floating);
    simple(e2m1, "E2M1", 4, dtypes::Floating);
    const Level mx(dtypes::E8M0, 32);
    format(mxfp8_e4m3, "MXFP8_E4M3", dtypes::E4M3, {mx});
    format(mxfp8_e5m2, "MXFP8_E5M2", dtypes::E5M2, {mx});
    format(mxint8, "MXINT8", dtypes::Int8, {mx});
    format(mxfp6_e3m2, "MXFP6_E3M2", dtypes::E3M2, {mx});
    format(mxfp6_e2m3, "MXFP6_E2M3", dtypes::E2M3, {mx});
    format(mxfp4, "MXFP4", dtypes::E2M1, {mx});
    format(nvfp4, "NVFP4", dtypes::E2M1, {Level(dtypes::E4M3, 16), Level(dtypes::Float32, Whole)});
    return true;
  }();
  static_cast<void>(done);
}

}  // namespace detail

}  // namespace orlop::inline v0
