// The arguments of a call that are no Tensors, for an operation whose Tensors are kept elsewhere.
#pragma once

#include <cstddef>
#include <span>
#include <utility>
#include <vector>

#include "orlop/operation/operation.hpp"

namespace orlop::inline v0 {

/// What a call had beside its Tensors, by position.
class ORLOP_API OtherArguments {
 public:
  void keep(std::span<const Argument> arguments);
  /// The call's arguments again, `tensors` in the positions that hold nothing else; empty where their number
  /// is another one.
  [[nodiscard]] std::vector<Argument> with(std::span<const Tensor> tensors) const;
  void clear() noexcept;
  void visit_references(ReferenceVisitor& visitor) const;

 private:
  std::vector<std::pair<std::size_t, Argument>> others_;
  std::size_t count_ = 0;
};

}  // namespace orlop::inline v0
