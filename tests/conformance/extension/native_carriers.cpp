// Carriers written outside the library in C++, as an extension of its own that works with orlop._core:
// Minimal has only what a carrier must have, Shelf is a mutable one for the conformance suite, and Crate has
// a CarrierDefinition.
#include <nanobind/nanobind.h>

#include <vector>

#include "orlop/carriers/cpu/cpu.hpp"
#include "orlop/extension/defined_carrier.hpp"
#include "orlop/extension/definition.hpp"
#include "orlop/storage/carrier.hpp"
#include "orlop/storage/normalize.hpp"
#include "orlop/storage/storage_dtype.hpp"

namespace nb = nanobind;
using namespace nb::literals;

namespace {

using orlop::AllocateOptions;
using orlop::Carrier;
using orlop::DType;
using orlop::Index;
using orlop::NewLikeOptions;
using orlop::Ref;
using orlop::Scalar;
using orlop::Sequence;

/// The required hooks over a vector: immutable, and only of its own dtype.
class Minimal final : public Carrier {
 public:
  Minimal(Index size, const DType& dtype)
      : dtype_(&dtype), values_(static_cast<std::size_t>(size), Scalar(0.0F)) {}

  [[nodiscard]] Index size() const override { return static_cast<Index>(values_.size()); }
  [[nodiscard]] const DType& dtype() const override { return *dtype_; }
  [[nodiscard]] Scalar get_value(Index index) const override {
    return values_[static_cast<std::size_t>(index)];
  }
  [[nodiscard]] Ref<Carrier> new_like(Sequence<Scalar> values, const NewLikeOptions&) const override {
    auto result = orlop::make_ref<Minimal>(0, *dtype_);
    for (const Scalar& value : values) result->values_.push_back(normalize(*dtype_, value));
    return result;
  }
  [[nodiscard]] Ref<Carrier> allocate_like(Index size, const AllocateOptions&) const override {
    return orlop::make_ref<Minimal>(size, *dtype_);
  }

 private:
  const DType* dtype_;
  std::vector<Scalar> values_;
};

/// Float32, Int32 or Bool values in a vector.
class Shelf final : public Carrier {
 public:
  Shelf(Index size, const DType& dtype, bool is_mutable)
      : dtype_(&dtype),
        is_mutable_(is_mutable),
        values_(static_cast<std::size_t>(size), orlop::storage_zero(dtype).value_or(Scalar(0.0F))) {}

  [[nodiscard]] Index size() const override { return static_cast<Index>(values_.size()); }
  [[nodiscard]] const DType& dtype() const override { return *dtype_; }
  [[nodiscard]] Scalar get_value(Index index) const override {
    return values_[static_cast<std::size_t>(index)];
  }
  void set_value(Index index, const Scalar& value) override {
    values_[static_cast<std::size_t>(index)] = normalize(*dtype_, value);
  }
  [[nodiscard]] Ref<Carrier> new_like(Sequence<Scalar> values, const NewLikeOptions& options) const override {
    auto result = orlop::make_ref<Shelf>(0, factory_dtype(options.dtype), options.is_mutable);
    for (const Scalar& value : values) result->values_.push_back(normalize(*result->dtype_, value));
    return result;
  }
  [[nodiscard]] Ref<Carrier> allocate_like(Index size, const AllocateOptions& options) const override {
    return orlop::make_ref<Shelf>(size, factory_dtype(options.dtype), options.is_mutable);
  }

 protected:
  [[nodiscard]] bool intrinsic_mutable() const override { return is_mutable_; }
  [[nodiscard]] bool stores(const DType& dtype) const override {
    return orlop::storage_zero(dtype).has_value();
  }
  void on_release() override { values_.clear(); }

 private:
  const DType* dtype_;
  bool is_mutable_;
  std::vector<Scalar> values_;
};

/// Float32, Int32 or Bool values in a vector that a StorageProvider keeps.
class Crate final : public orlop::DefinedCarrier {
 public:
  std::vector<Scalar> values;

 protected:
  [[nodiscard]] Ref<Carrier> make_blank() const override { return orlop::make_ref<Crate>(); }
};

class CrateStorage final : public orlop::StorageProvider {
 public:
  [[nodiscard]] bool supports_dtype(const Carrier&, const DType& dtype) const override {
    return orlop::storage_zero(dtype).has_value();
  }
  [[nodiscard]] Index physical_size(const Carrier& carrier) const override {
    return static_cast<Index>(crate(carrier).values.size());
  }
  void allocate(Carrier& carrier, Index slots) const override {
    crate(carrier).values.assign(static_cast<std::size_t>(slots), Scalar(0.0F));
  }
  void release(Carrier& carrier) const override { crate(carrier).values.clear(); }
  [[nodiscard]] Scalar read(const Carrier& carrier, Index index) const override {
    return crate(carrier).values[static_cast<std::size_t>(index)];
  }
  void write(Carrier& carrier, Index index, const Scalar& value) const override {
    crate(carrier).values[static_cast<std::size_t>(index)] = value;
  }
  [[nodiscard]] bool elementwise_fallback() const override { return true; }

 private:
  static const Crate& crate(const Carrier& carrier) { return static_cast<const Crate&>(carrier); }
  static Crate& crate(Carrier& carrier) { return static_cast<Crate&>(carrier); }
};

/// Copies the span of a Crate into a CPU.
orlop::Result<orlop::PreparedTransfer> prepare_unpacking(const orlop::TransferRequest& request) {
  if (request.dtype == &orlop::dtypes::Bool) return orlop::Unsupported("Bool stays in its crate");
  return orlop::PreparedTransfer([request]() -> std::shared_ptr<orlop::ProviderCompletion<void>> {
    std::vector<std::byte> slots(orlop::slots_to_bytes(*request.dtype, request.physical_span));
    request.tensor.carrier()->read_span(request.tensor.offset(), request.physical_span, slots.data());
    request.destination->write_span(0, request.physical_span, slots.data());
    return nullptr;
  });
}

}  // namespace

NB_MODULE(orlop_conformance, module) {
  nb::module_::import_("orlop._core");  // binds Carrier
  const orlop::CarrierClass crate = orlop::carrier_class<Crate>();
  orlop::register_carrier_definition(
      crate, {.storage = std::make_shared<CrateStorage>(),
              .transfers = {{crate, orlop::carrier_class<orlop::CPU>(), "crate_to_cpu",
                             orlop::make_transfer(prepare_unpacking)}}});
  nb::class_<Minimal, Carrier>(module, "Minimal")
      .def(
          "__init__",
          [](nb::pointer_and_handle<Minimal> self, Index size, bool opaque) {
            new (self.p) Minimal(
                size, opaque ? static_cast<const DType&>(orlop::dtypes::Any) : orlop::dtypes::Float32);
          },
          "size"_a, nb::kw_only(), "opaque"_a = false);
  nb::class_<Crate, Carrier>(module, "Crate")
      .def(
          "__init__",
          [](nb::pointer_and_handle<Crate> self, Index slots) {
            orlop::construct_defined_at(self.p, slots, {.dtype = orlop::dtypes::Float32});
          },
          "slots"_a);
  nb::class_<Shelf, Carrier>(module, "Shelf")
      .def(
          "__init__",
          [](nb::pointer_and_handle<Shelf> self, Index size) {
            new (self.p) Shelf(size, orlop::dtypes::Float32, true);
          },
          "size"_a);
}
