// Tensor: a small handle of a counted object that places a layout on a carrier.
#pragma once

#include <memory>
#include <optional>
#include <span>
#include <string>
#include <string_view>
#include <utility>
#include <vector>

#include "orlop/base/object.hpp"
#include "orlop/layout/layout.hpp"
#include "orlop/storage/carrier.hpp"
#include "orlop/tensor/representation.hpp"
#include "orlop/tensor/views.hpp"

namespace orlop::inline v0 {

class TensorObject;

/// The state of a tensor's carriers at one moment: each distinct constituent carrier and its version, in
/// level order (P41). The carriers stay alive as long as the tensor that the token was taken from.
class ORLOP_API VersionToken {
 public:
  using Entry = std::pair<const Carrier*, std::int64_t>;
  VersionToken() = default;
  explicit VersionToken(Entry first) : first_(first) {}
  void add(Entry entry);
  [[nodiscard]] std::vector<Entry> entries() const;
  friend bool operator==(const VersionToken&, const VersionToken&) = default;

 private:
  Entry first_{nullptr, 0};
  std::vector<Entry> rest_;  // only compound tensors have more than one carrier
};

/// Handle of a tensor. Copying shares the tensor: the copy *is* the same tensor, with the same identity.
class ORLOP_API Tensor {
 public:
  /// The null handle. Whatever needs a tensor refuses it with a TypeError.
  Tensor() noexcept = default;
  /// Places `layout` on `carrier` from slot `offset` (M401).
  Tensor(Ref<Carrier> carrier, Index offset, Layout layout);
  explicit Tensor(Ref<TensorObject> object) noexcept : object_(std::move(object)) {}

  /// Validates and wraps a representation (M407).
  [[nodiscard]] static Tensor from_representation(TensorRepresentation representation);
  /// For results the library has just made and knows to be valid.
  [[nodiscard]] static Tensor trusted(Ref<Carrier> carrier, Index offset, Layout layout);

  // Placement of plane 0.
  [[nodiscard]] const Ref<Carrier>& carrier() const;
  [[nodiscard]] Index offset() const;
  [[nodiscard]] const Layout& layout() const;
  [[nodiscard]] std::int64_t version() const { return carrier()->version(); }
  [[nodiscard]] CarrierClass carrier_type() const { return carrier()->carrier_class(); }

  /// The logical dtype; for a compound tensor not that of any one plane.
  [[nodiscard]] const DType& dtype() const;
  /// Number of logical elements.
  [[nodiscard]] Index size() const { return layout().size(); }
  [[nodiscard]] Shape shape() const { return layout().shape(); }
  [[nodiscard]] bool is_single_subtensor() const;
  /// NotImplementedError ‹Multi-subtensor Tensor reason› for a compound tensor (M409).
  void require_single_subtensor(std::string_view reason) const;
  [[nodiscard]] bool is_mutable() const;
  /// Logical dtype Float32 or Floating (P81).
  [[nodiscard]] bool is_differentiable() const;
  [[nodiscard]] TensorRepresentation representation() const;
  [[nodiscard]] VersionToken version_token() const;

  /// The element at an ordinal or a nested coordinate (M404).
  [[nodiscard]] Scalar at(const Coordinate& key) const;
  void set(const Coordinate& key, const Scalar& value) const;
  /// The view of one index or range per top-level mode (M502); see orlop/operation/views.hpp for the other
  /// views.
  [[nodiscard]] Tensor slice(SliceKeys keys) const;
  /// For the eye, `Tensor(1.0, 2.0, shape=(2,), …)`: the first and last three values where reading them moves
  /// nothing, extents, strides, dtype, carrier, residency and version. Prints to streams too.
  [[nodiscard]] std::string to_string() const;

  /// Gives the reference to the caller and leaves the null handle.
  [[nodiscard]] Ref<TensorObject> detach() noexcept { return std::move(object_); }
  /// Null for the null handle.
  [[nodiscard]] TensorObject* object() const noexcept { return object_.get(); }
  /// The object; TypeError for the null handle.
  [[nodiscard]] TensorObject& require_object() const {
    if (!object_) [[unlikely]]
      raise_null();
    return *object_;
  }
  [[nodiscard]] const Ref<TensorObject>& ref() const noexcept { return object_; }
  explicit operator bool() const noexcept { return static_cast<bool>(object_); }
  /// Identity.
  friend bool operator==(const Tensor& a, const Tensor& b) noexcept { return a.object_ == b.object_; }

 private:
  [[noreturn]] static void raise_null();

  Ref<TensorObject> object_;
};

/// The counted object behind Tensor handles; what Python binds as `Tensor`.
class ORLOP_API TensorObject : public Object {
 public:
  TensorObject(Ref<Carrier> carrier, Index offset, Layout layout)
      : dtype_(&carrier->dtype()),
        carrier_(std::move(carrier)),
        offset_(offset),
        layout_(std::move(layout)) {}
  ~TensorObject() override;

  void visit_references(ReferenceVisitor& visitor) const override;
  void drop_references() noexcept override;

  /// The operation that produced this tensor, or null; typed access is in operation/autograd.hpp.
  Ref<Object> autograd_node;
  /// The accumulated gradient, or null.
  Tensor gradient;
  bool retains_gradient = false;

 private:
  friend class Tensor;
  /// The planes behind plane 0.
  struct Deeper {
    std::vector<Subtensor> subtensors;
    std::vector<Layout> adjacent_layouts;
  };

  const DType* dtype_;
  Ref<Carrier> carrier_;  // null only after drop_references
  Index offset_;
  Layout layout_;
  std::unique_ptr<Deeper> deeper_;
};

inline const Ref<Carrier>& Tensor::carrier() const { return require_object().carrier_; }
inline Index Tensor::offset() const { return require_object().offset_; }
inline const Layout& Tensor::layout() const { return require_object().layout_; }
inline const DType& Tensor::dtype() const { return *require_object().dtype_; }
inline bool Tensor::is_single_subtensor() const { return require_object().deeper_ == nullptr; }
inline bool Tensor::is_differentiable() const {
  return &dtype() == &dtypes::Float32 || &dtype() == &dtypes::Floating;
}

}  // namespace orlop::inline v0
