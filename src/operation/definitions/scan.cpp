// cumsum along one mode, the scans of gradients, and what they share (P64, P65).
#include "operation/definition.hpp"
#include "operation/gradient.hpp"
#include "operation/gradient_scan.hpp"
#include "operation/modes.hpp"

namespace orlop::inline v0 {

namespace {

/// (tensor, dimension).
class Cumsum final : public Definition {
 public:
  Cumsum() : Definition("cumsum") {}

  void check_arguments(std::span<const Argument> arguments) const override {
    if (arguments.size() != 2)
      raise<TypeError>(name(), "takes a Tensor and a dimension: got ", arguments.size(), " arguments");
    if (arguments[0].tensor() == nullptr)
      raise<TypeError>(name(), "the first argument must be a Tensor: got ", arguments[0].type_name());
    const Scalar* dimension = arguments[1].scalar();
    if (dimension == nullptr || !dimension->is_integer())
      raise<TypeError>(name(), "dimension must be an integer: got ", arguments[1].type_name());
  }

  [[nodiscard]] Resolution resolve(std::span<const Argument> arguments, const OperationPlan&) const override {
    return {Layout::canonical(arguments[0].tensor()->layout().shape()),
            {.axis = static_cast<Index>(dimension_of(arguments))}};
  }

  /// The sum of g from each position on.
  [[nodiscard]] Gradients gradients(const GradientContext& context) const override {
    return context.per_tensor([&](std::size_t position) {
      return context.fit(position,
                         gradient_scan(context.cotangent(), {.axis = dimension_of(context.arguments()),
                                                             .accumulation = Accumulation::SequentialBinary32,
                                                             .is_backward = true}));
    });
  }

 private:
  [[nodiscard]] std::size_t dimension_of(std::span<const Argument> arguments) const {
    return to_mode(name(), "dimension", *arguments[1].scalar(), arguments[0].tensor()->layout().rank());
  }
};

/// Only a name for the kernels.
class Scan final : public Definition {
 public:
  Scan() : Definition("_scan") {}
  void check_arguments(std::span<const Argument>) const override {}
};

OperationPlan plan_of(Accumulation accumulation) {
  return {"_scan",
          {OperandPlan(OperandRole::Tensor, &dtypes::Float32, dtypes::Float32)},
          Arithmetic::Binary32,
          accumulation,
          &dtypes::Float32,
          dtypes::Float32};
}

}  // namespace

Tensor gradient_scan(const Tensor& tensor, const GradientScan& scan) {
  static const Scan definition;
  tensor.carrier()->require_live();
  const Argument argument(tensor);
  return run_kernel(definition, plan_of(scan.accumulation), {&argument, 1},
                    {Layout::canonical(tensor.layout().shape()),
                     {.axis = static_cast<Index>(scan.axis),
                      .is_backward = scan.is_backward,
                      .is_exclusive = scan.is_exclusive}});
}

DefinitionList scan_definitions() {
  static const Cumsum cumsum;
  static const Definition* const list[] = {&cumsum};
  return list;
}

}  // namespace orlop::inline v0
