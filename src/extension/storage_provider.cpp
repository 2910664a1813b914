// Bulk access by single slots, and providers made of lambdas.
#include "orlop/extension/storage_provider.hpp"

#include "orlop/storage/normalize.hpp"

namespace orlop::inline v0 {

UnsupportedStorageDTypeError::~UnsupportedStorageDTypeError() = default;
StorageProvider::~StorageProvider() = default;

void StorageProvider::read_span(const Carrier& carrier, Index first, Index count, void* out) const {
  const DType& type = carrier.dtype();
  auto* slot = static_cast<std::byte*>(out);
  for (Index i = 0; i < count; ++i, slot += type.slot_bytes())
    encode_slot(type, read(carrier, first + i), slot);
}

void StorageProvider::write_span(Carrier& carrier, Index first, Index count, const void* in) const {
  const DType& type = carrier.dtype();
  const auto* slot = static_cast<const std::byte*>(in);
  for (Index i = 0; i < count; ++i, slot += type.slot_bytes())
    write(carrier, first + i, decode_slot(type, slot));
}

namespace {

class FunctionStorage final : public StorageProvider {
 public:
  explicit FunctionStorage(StorageFunctions functions) : functions_(std::move(functions)) {}

  [[nodiscard]] bool supports_dtype(const Carrier& carrier, const DType& dtype) const override {
    return functions_.supports_dtype(carrier, dtype);
  }
  [[nodiscard]] Index physical_size(const Carrier& carrier) const override {
    return functions_.physical_size(carrier);
  }
  void allocate(Carrier& carrier, Index slots) const override { functions_.allocate(carrier, slots); }
  void release(Carrier& carrier) const override { functions_.release(carrier); }
  [[nodiscard]] Scalar read(const Carrier& carrier, Index index) const override {
    return functions_.read(carrier, index);
  }
  void write(Carrier& carrier, Index index, const Scalar& value) const override {
    functions_.write(carrier, index, value);
  }
  [[nodiscard]] bool elementwise_fallback() const override { return functions_.elementwise_fallback; }

 private:
  StorageFunctions functions_;
};

}  // namespace

std::shared_ptr<const StorageProvider> make_storage(StorageFunctions functions) {
  const auto require = [](const auto& function, std::string_view field) {
    if (!function) raise<TypeError>("StorageProvider", field, " must be callable: it is empty");
  };
  require(functions.supports_dtype, "supports_dtype");
  require(functions.physical_size, "physical_size");
  require(functions.allocate, "allocate");
  require(functions.release, "release");
  require(functions.read, "read");
  require(functions.write, "write");
  return std::make_shared<FunctionStorage>(std::move(functions));
}

}  // namespace orlop::inline v0
