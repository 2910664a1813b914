// What an invocation promised, held against what its executor, reference or gradient rule gave (X31, X32).
#include "operation/results.hpp"
#include "orlop/operation/grad_mode.hpp"

namespace orlop::inline v0 {

ProviderContractError::~ProviderContractError() = default;

namespace {

[[noreturn]] void refuse_result(const ResolvedInvocation& invocation, std::size_t position,
                                std::string_view field, const auto&... parts) {
  raise<ProviderContractError>(invocation.name(), "result ", position, " has the wrong ", field, ": ",
                               parts...);
}

/// The position of the operand that `result` is, or nothing.
std::optional<std::size_t> operand_of(const ResolvedInvocation& invocation, const Tensor& result) {
  for (std::size_t i = 0; i < invocation.operands().size(); ++i)
    if (const Tensor* operand = invocation.tensor(i); operand != nullptr && *operand == result) return i;
  return std::nullopt;
}

void check_aliasing(const ResolvedInvocation& invocation, std::size_t position,
                    std::span<const Tensor> results) {
  const Tensor& result = results[position];
  const std::optional<std::size_t> promised = invocation.results()[position].alias_of;
  if (promised) {
    if (!(*invocation.tensor(*promised) == result))
      refuse_result(invocation, position, "aliasing", "it must be the very operand ", *promised);
    return;
  }
  if (const auto operand = operand_of(invocation, result))
    refuse_result(invocation, position, "aliasing", "it aliases operand ", *operand,
                  ", which the invocation does not promise");
  for (std::size_t i = 0; i < position; ++i)
    if (results[i] == result) refuse_result(invocation, position, "aliasing", "it aliases result ", i);
}

void check_placement(const ResolvedInvocation& invocation, std::size_t position, const Tensor& result,
                     CarrierClass expected) {
  if (expected && result.carrier_type() != expected)
    refuse_result(invocation, position, "carrier role", expected, " expected, it lives on ",
                  result.carrier_type());
  if (result.offset() != 0)
    refuse_result(invocation, position, "offset", "0 expected, got ", result.offset());
  const Index size = result.carrier()->size();
  if (size != result.layout().cosize())
    refuse_result(invocation, position, "size", "storage of ", result.layout().cosize(),
                  " slots expected, got ", size);
}

}  // namespace

void check_results(const ResolvedInvocation& invocation, std::span<const Tensor> results,
                   std::span<const CarrierClass> classes) {
  const std::span<const ResultSpec> specs = invocation.results();
  if (results.size() != specs.size())
    raise<ProviderContractError>(invocation.name(), "the count of results must be ", specs.size(), ": got ",
                                 results.size());
  for (std::size_t i = 0; i < results.size(); ++i) {
    const Tensor& result = results[i];
    if (!result) raise<ProviderContractError>(invocation.name(), "result ", i, " is no Tensor");
    if (&result.dtype() != specs[i].dtype)
      refuse_result(invocation, i, "dtype", specs[i].dtype->name(), " expected, got ", result.dtype().name());
    if (!(result.layout().shape() == specs[i].shape))
      refuse_result(invocation, i, "shape", specs[i].shape, " expected, got ", result.layout().shape());
    if (!result.is_single_subtensor() || !(result.layout() == specs[i].layout))
      refuse_result(invocation, i, "layout", specs[i].layout, " expected, got ", result.layout());
    check_aliasing(invocation, i, results);
    if (!specs[i].alias_of)
      check_placement(invocation, i, result, i < classes.size() ? classes[i] : CarrierClass());
  }
}

std::vector<Tensor> execute_reference(const ResolvedInvocation& invocation) {
  const NoGrad no_grad;
  std::vector<Tensor> results = invocation.definition().semantics().reference(invocation);
  if (results.empty()) raise<ProviderContractError>(invocation.name(), "the reference gave no results");
  check_results(invocation, results, {});
  return results;
}

Gradients call_vjp(const VJPContext& context, Cotangents cotangents) {
  const ResolvedInvocation& invocation = context.invocation();
  const std::string& name = invocation.name();
  const std::span<const ResultSpec> specs = invocation.results();
  if (cotangents.size() != specs.size())
    raise<ValueError>(name, "cotangents must have one entry per result: ", specs.size(), " expected, got ",
                      cotangents.size());
  for (std::size_t i = 0; i < cotangents.size(); ++i) {
    if (!cotangents[i]) continue;
    const Tensor& cotangent = *cotangents[i];
    if (&cotangent.dtype() != specs[i].dtype)
      raise<TypeError>(name, "cotangent ", i, " must have the result's dtype ", specs[i].dtype->name(),
                       ": got ", cotangent.dtype().name());
    if (!(cotangent.layout().shape() == specs[i].shape))
      raise<ValueError>(name, "cotangent ", i, " must have the result's shape ", specs[i].shape, ": got ",
                        cotangent.layout().shape());
  }
  if (!invocation.definition().semantics().differentiable())
    raise<RuntimeError>(name, "the operation has no VJP: it is not differentiable");
  const NoGrad no_grad;
  Gradients gradients = invocation.definition().semantics().vjp(context, cotangents);
  const std::vector<std::size_t> positions =
      invocation.definition().differentiable_operands(invocation.call());
  if (gradients.size() != positions.size())
    raise<ValueError>(name, "the VJP must give one entry per differentiable operand: ", positions.size(),
                      " expected, got ", gradients.size());
  for (std::size_t i = 0; i < gradients.size(); ++i) {
    if (!gradients[i]) continue;
    const Tensor& operand = *invocation.tensor(positions[i]);
    if (&gradients[i]->dtype() != &operand.dtype())
      raise<TypeError>(name, "the gradient of operand ", positions[i], " must have its dtype ",
                       operand.dtype().name(), ": got ", gradients[i]->dtype().name());
    if (!(gradients[i]->layout().shape() == operand.layout().shape()))
      raise<ValueError>(name, "the gradient of operand ", positions[i], " must have its shape ",
                        operand.layout().shape(), ": got ", gradients[i]->layout().shape());
  }
  return gradients;
}

}  // namespace orlop::inline v0
