// Keeping a call's arguments without its Tensors.
#include "orlop/operation/other_arguments.hpp"

namespace orlop::inline v0 {

void OtherArguments::keep(std::span<const Argument> arguments) {
  others_.clear();
  count_ = arguments.size();
  for (std::size_t i = 0; i < count_; ++i)
    if (arguments[i].tensor() == nullptr) others_.emplace_back(i, arguments[i]);
}

std::vector<Argument> OtherArguments::with(std::span<const Tensor> tensors) const {
  std::vector<Argument> arguments;
  if (tensors.size() + others_.size() != count_) return arguments;
  arguments.reserve(count_);
  auto tensor = tensors.begin();
  auto other = others_.begin();
  for (std::size_t i = 0; i < count_; ++i) {
    if (other != others_.end() && other->first == i)
      arguments.push_back((other++)->second);
    else
      arguments.emplace_back(*tensor++);
  }
  return arguments;
}

void OtherArguments::clear() noexcept {
  others_.clear();
  count_ = 0;
}

void OtherArguments::visit_references(ReferenceVisitor& visitor) const {
  for (const auto& [position, argument] : others_) argument.visit_references(visitor);
}

}  // namespace orlop::inline v0
