// The one class of built-in operations, driven by the central table (P45).
#pragma once

#include "orlop/operation/operation.hpp"
#include "orlop/operation/other_arguments.hpp"

namespace orlop::inline v0 {

class Definition;

/// What carries out every built-in name, and what profiles show as its implementation. Made by
/// `table_operation(name)` and by dispatch.
class ORLOP_API TableOperation final : public Operation {
 public:
  explicit TableOperation(const Definition& definition) noexcept : definition_(definition) {}
  /// Dispatched as `other` was.
  TableOperation(const Definition& definition, const Operation& other);
  ~TableOperation() override;

  Gradients backward(const Tensor& gradient) override;
  Gradients partial_backward(const Tensor& gradient, const std::vector<bool>& wanted) override;
  [[nodiscard]] std::string implementation_name() const override;

 protected:
  Tensor forward_impl(std::span<const Argument> inputs) override;
  [[nodiscard]] bool accepts_compound() const override;
  void on_release_autograd_state() noexcept override { others_.clear(); }

 private:
  const Definition& definition_;
  OtherArguments others_;  // Tensors are kept by the base, and only for a graph
};

}  // namespace orlop::inline v0
