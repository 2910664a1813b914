// The record behind each built-in operation name: which arguments it takes, what shape it makes, what its
// gradient is. A definition never asks which carrier it runs on.
#pragma once

#include <atomic>
#include <optional>
#include <span>
#include <string_view>
#include <vector>

#include "orlop/operation/kernels.hpp"
#include "orlop/operation/operation.hpp"

namespace orlop::inline v0 {

class GradientContext;

/// What one call will produce: decided from dtypes, shapes and parameters, never from values (P50 d-f).
struct Resolution {
  Layout layout;  ///< of the result: canonical, but in batch_matmul_definition
  KernelParameters parameters;
};

/// One built-in operation. Instances are constants of the files in src/operation/definitions/.
class Definition {
 public:
  explicit Definition(std::string_view name) : Definition(name, name) {}
  /// Computed by a kernel that has another name than the operation.
  Definition(std::string_view name, std::string_view kernel_name) : name_(name), kernel_name_(kernel_name) {}
  Definition(const Definition&) = delete;
  Definition& operator=(const Definition&) = delete;
  virtual ~Definition() = default;

  [[nodiscard]] std::string_view name() const noexcept { return name_; }
  /// The registered plan rules; null for the views, which have none.
  [[nodiscard]] const OperationSpec* spec() const;

  /// P50 (a): the number and kinds of the arguments; TypeError.
  virtual void check_arguments(std::span<const Argument> arguments) const = 0;
  /// P50 (e, f): parameters and shapes, after the plan is known.
  [[nodiscard]] virtual Resolution resolve(std::span<const Argument> arguments,
                                           const OperationPlan& plan) const;
  /// P50 (h): what must be read from the operands before anything is allocated (index values), if anything.
  [[nodiscard]] virtual bool checks_values() const noexcept { return false; }
  virtual void check_values(std::span<const Argument> arguments,
                            std::span<const KernelOperand> operands) const;
  /// Views: the result on the same carriers. Everything else goes through `resolve` and a kernel.
  [[nodiscard]] virtual bool is_view() const noexcept { return false; }
  /// Whether a Tensor of several subtensors may be an argument (P42).
  [[nodiscard]] virtual bool accepts_compound() const noexcept { return false; }
  [[nodiscard]] virtual Tensor view(std::span<const Argument> arguments) const;
  /// One gradient per Tensor argument. Default: RuntimeError, for results that carry no gradient.
  [[nodiscard]] virtual Gradients gradients(const GradientContext& context) const;
  /// What `backward` gives whatever it is called with, for a name whose results never get a node; nothing
  /// where it is to be computed.
  [[nodiscard]] virtual std::optional<Gradients> fixed_gradients() const { return std::nullopt; }
  /// P65, P84: what `backward(gradient)` accepts for this operation; the views have their own rule (M504).
  virtual void check_cotangent(const GradientContext& context) const;

  [[nodiscard]] std::string_view kernel_name() const noexcept { return kernel_name_; }
  /// The kernel of `table` with that name, or the reference one where it has none; remembered per table.
  [[nodiscard]] KernelFunction kernel(const KernelTable& table) const noexcept;

 private:
  std::string_view name_, kernel_name_;
  mutable std::atomic<const OperationSpec*> spec_{nullptr};
  // The tables asked so far and their answers, the newest first: a process computes on one or two backends.
  struct Remembered {
    const KernelTable* table;
    KernelFunction kernel;
    const Remembered* older;
  };
  mutable std::atomic<const Remembered*> remembered_{nullptr};
};

/// The definition of `name`, or null. The table is filled once from the families in definitions/.
[[nodiscard]] const Definition* find_definition(std::string_view name);

/// The products of the matrices of two batches, one for each entry: matmul with operands (rows, terms, batch)
/// and a result (rows, rows, batch). Its third argument is the layout of the result, compact. No call by name
/// comes here, only einsum's.
[[nodiscard]] const Definition& batch_matmul_definition();

/// Dispatches on the first Tensor an operation that has the name, but this definition.
[[nodiscard]] Tensor apply_definition(const Definition& definition, std::span<const Argument> arguments);

/// Runs a definition on the carrier class of its Tensor arguments (P50). `gate` is the carrier whose class
/// must advertise the plan; null for gradient arithmetic, which is not gated (P65).
[[nodiscard]] Tensor run_definition(const Definition& definition, std::span<const Argument> arguments,
                                    const OperationExecutionOptions* options, CarrierClass dispatch_class,
                                    bool is_gated);

/// P50 (h, i): the kernel of `definition` on the class of its first Tensor, for what was resolved. The plan's
/// operands are the first arguments. Steps of gradients, which have no registered plan, come in here.
[[nodiscard]] Tensor run_kernel(const Definition& definition, const OperationPlan& plan,
                                std::span<const Argument> arguments, const Resolution& resolution);

/// The plan of a call of a registered operation name, after its argument check; null for a name without
/// plans.
[[nodiscard]] const OperationPlan* plan_of_call(std::string_view name, std::span<const Argument> arguments,
                                                const OperationExecutionOptions* options);

/// One of the families' lists.
using DefinitionList = std::span<const Definition* const>;

// One function per family file.
DefinitionList arithmetic_definitions();
DefinitionList unary_definitions();
DefinitionList activation_definitions();
DefinitionList comparison_definitions();
DefinitionList reduction_definitions();
DefinitionList scan_definitions();
DefinitionList contraction_definitions();
DefinitionList convolution_definitions();
DefinitionList indexing_definitions();
DefinitionList ordering_definitions();
DefinitionList ternary_definitions();
DefinitionList view_definitions();

}  // namespace orlop::inline v0
