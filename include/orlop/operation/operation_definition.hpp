// Operation definitions (X21–X33): what an operation name means wherever it runs: its operands and options,
// the plan and results of a call, a reference, its gradient. The built-in names and those defined outside
// stand in one registry.
//
// BoundOperationCall, ResolvedInvocation and VJPContext are small handles of immutable counted objects, as
// Tensor is: a copy is the same call, with the same identity. OperationSemantics::resolve therefore takes and
// gives values, and whoever keeps an invocation copies it.
#pragma once

#include <cstddef>
#include <functional>
#include <map>
#include <memory>
#include <optional>
#include <span>
#include <string>
#include <string_view>
#include <vector>

#include "orlop/base/error.hpp"
#include "orlop/operation/operation.hpp"
#include "orlop/operation/plan.hpp"

namespace orlop::inline v0 {

class OperationDefinition;
namespace detail {
void forget_semantics(const OperationDefinition& definition);
}

// --- Schemas (X21) ----------------------------------------------------------------------------------------

/// What an operand may be. A structural one is anything: a call binds it as a tensor, a weak scalar or a
/// structural value, by what it is given.
enum class OperandKind : std::uint8_t { tensor, weak_scalar, structural };
/// "tensor", "weak_scalar" or "structural".
ORLOP_API std::string_view value_of(OperandKind kind) noexcept;

/// One positional operand. Errors: ValueError where the name is no identifier, or a differentiable operand is
/// no tensor.
struct ORLOP_API OperandSpec {
  OperandSpec(std::string operand_name, OperandKind operand_kind, bool is_differentiable = false);

  std::string name;
  OperandKind kind;
  bool differentiable;
};

/// One keyword option; without a default a call must give it. Errors: ValueError where the name is no
/// identifier.
struct ORLOP_API OptionSpec {
  explicit OptionSpec(std::string option_name, std::optional<Argument> default_argument = std::nullopt);

  std::string name;
  std::optional<Argument> default_value;
};

/// Operands in call order, then options. Errors: ValueError where there is no operand or a name stands twice.
struct ORLOP_API OperationSchema {
  explicit OperationSchema(std::vector<OperandSpec> operand_specs, std::vector<OptionSpec> option_specs = {});

  std::vector<OperandSpec> operands;
  std::vector<OptionSpec> options;
};

/// The options of a call by name.
using OperationOptions = std::map<std::string, Argument, std::less<>>;

// --- Calls (X22, X24) -------------------------------------------------------------------------------------

/// What BoundOperationCall handles share.
class ORLOP_API BoundCallObject final : public Object {
 public:
  BoundCallObject(const OperationDefinition& definition, std::vector<Argument> operands,
                  OperationOptions options, std::vector<OperandKind> kinds);
  ~BoundCallObject() override;
  void visit_references(ReferenceVisitor& visitor) const override;
  void drop_references() noexcept override;

 private:
  friend class BoundOperationCall;
  const OperationDefinition& definition_;
  std::vector<Argument> operands_;
  OperationOptions options_;
  std::vector<OperandKind> kinds_;
};

/// Operands and options that fit a definition's schema; made by `OperationDefinition::bind` alone.
class ORLOP_API BoundOperationCall {
 public:
  explicit BoundOperationCall(Ref<BoundCallObject> object) noexcept : object_(std::move(object)) {}

  [[nodiscard]] const OperationDefinition& definition() const noexcept { return object_->definition_; }
  [[nodiscard]] std::span<const Argument> operands() const noexcept { return object_->operands_; }
  /// The Tensor operand at `position`, or null.
  [[nodiscard]] const Tensor* tensor(std::size_t position) const noexcept {
    return position < operands().size() ? operands()[position].tensor() : nullptr;
  }
  /// Every option of the schema, defaults filled in.
  [[nodiscard]] const OperationOptions& options() const noexcept { return object_->options_; }
  /// One of them, or LookupError.
  [[nodiscard]] const Argument& option(std::string_view name) const;
  /// What each operand was bound as.
  [[nodiscard]] std::span<const OperandKind> operand_kinds() const noexcept { return object_->kinds_; }

  [[nodiscard]] const Ref<BoundCallObject>& ref() const noexcept { return object_; }
  /// Identity.
  friend bool operator==(const BoundOperationCall& a, const BoundOperationCall& b) noexcept {
    return a.object_ == b.object_;
  }

 private:
  Ref<BoundCallObject> object_;
};

/// One promised result. `alias_of`: the very operand object at that position. Tolerances are what a test of a
/// kernel may allow. Errors: ValueError where the layout has another shape, or a tolerance is negative or not
/// finite.
struct ORLOP_API ResultSpec {
  ResultSpec(const DType& result_dtype, Shape result_shape, Layout result_layout,
             std::optional<std::size_t> aliased_operand = std::nullopt, double absolute_tolerance = 0.0,
             double relative_tolerance = 0.0);

  const DType* dtype;
  Shape shape;
  Layout layout;
  std::optional<std::size_t> alias_of;
  double atol;
  double rtol;
};

/// What ResolvedInvocation handles share.
class ORLOP_API InvocationObject final : public Object {
 public:
  struct Fields {
    BoundOperationCall call;
    std::shared_ptr<const OperationPlan> plan;
    std::vector<ResultSpec> results;
    std::vector<std::size_t> mutated_operands, saved_operands;
    std::string kernel_id;
  };
  /// Errors: see ResolvedInvocation.
  explicit InvocationObject(Fields fields);
  ~InvocationObject() override;
  void visit_references(ReferenceVisitor& visitor) const override;

 private:
  friend class ResolvedInvocation;
  Fields fields_;
};

/// What one call will do: decided from kinds, shapes, layouts, dtypes and options, never from a carrier
/// class. `ResolvedInvocation(call, plan, {ResultSpec(...)}, {.saved_operands = {0}})`.
class ORLOP_API ResolvedInvocation {
 public:
  struct Effects {
    std::vector<std::size_t> mutated_operands{};
    std::vector<std::size_t> saved_operands{};
    std::string kernel_id{};  ///< "": the operation's name
  };
  /// Errors X21: ValueError for no result, repeated indices, a plan of another operation or of other roles
  /// than the bound operands, indices and aliases that name no Tensor operand.
  ResolvedInvocation(BoundOperationCall call, std::shared_ptr<const OperationPlan> plan,
                     std::vector<ResultSpec> results, Effects effects);
  ResolvedInvocation(BoundOperationCall call, std::shared_ptr<const OperationPlan> plan,
                     std::vector<ResultSpec> results)
      : ResolvedInvocation(std::move(call), std::move(plan), std::move(results), Effects()) {}
  explicit ResolvedInvocation(Ref<InvocationObject> object) noexcept : object_(std::move(object)) {}

  [[nodiscard]] const BoundOperationCall& call() const noexcept { return fields().call; }
  [[nodiscard]] const OperationPlan& plan() const noexcept { return *fields().plan; }
  [[nodiscard]] const std::shared_ptr<const OperationPlan>& shared_plan() const noexcept {
    return fields().plan;
  }
  [[nodiscard]] std::span<const ResultSpec> results() const noexcept { return fields().results; }
  [[nodiscard]] std::span<const std::size_t> mutated_operands() const noexcept {
    return fields().mutated_operands;
  }
  [[nodiscard]] std::span<const std::size_t> saved_operands() const noexcept {
    return fields().saved_operands;
  }
  [[nodiscard]] const std::string& kernel_id() const noexcept { return fields().kernel_id; }

  [[nodiscard]] const OperationDefinition& definition() const noexcept { return call().definition(); }
  [[nodiscard]] const std::string& name() const noexcept;
  [[nodiscard]] std::span<const Argument> operands() const noexcept { return call().operands(); }
  [[nodiscard]] const Tensor* tensor(std::size_t position) const noexcept { return call().tensor(position); }
  [[nodiscard]] const OperationOptions& options() const noexcept { return call().options(); }
  [[nodiscard]] const Argument& option(std::string_view option_name) const {
    return call().option(option_name);
  }

  [[nodiscard]] const Ref<InvocationObject>& ref() const noexcept { return object_; }
  /// Identity.
  friend bool operator==(const ResolvedInvocation& a, const ResolvedInvocation& b) noexcept {
    return a.object_ == b.object_;
  }

 private:
  [[nodiscard]] const InvocationObject::Fields& fields() const noexcept { return object_->fields_; }
  Ref<InvocationObject> object_;
};

/// A plan of the registry as a ResolvedInvocation keeps it; nothing is copied.
[[nodiscard]] ORLOP_API std::shared_ptr<const OperationPlan> share_builtin_plan(const OperationPlan& plan);

/// What VJPContext handles share.
class ORLOP_API VJPContextObject final : public Object {
 public:
  VJPContextObject(ResolvedInvocation invocation, std::vector<Tensor> outputs, std::vector<Tensor> saved);
  ~VJPContextObject() override;
  void visit_references(ReferenceVisitor& visitor) const override;
  void drop_references() noexcept override;

 private:
  friend class VJPContext;
  ResolvedInvocation invocation_;
  std::vector<Tensor> outputs_;
  std::vector<Tensor> saved_;
};

/// What a gradient rule sees: the invocation, its outputs (the same storage, without graph) and exactly the
/// saved operands.
class ORLOP_API VJPContext {
 public:
  /// ValueError ‹save recipe› unless `saved` are the very operands that the invocation saves, and there is
  /// one output per result.
  VJPContext(ResolvedInvocation invocation, std::vector<Tensor> outputs, std::vector<Tensor> saved);
  explicit VJPContext(Ref<VJPContextObject> object) noexcept : object_(std::move(object)) {}

  [[nodiscard]] const ResolvedInvocation& invocation() const noexcept { return object_->invocation_; }
  [[nodiscard]] std::span<const Tensor> outputs() const noexcept { return object_->outputs_; }
  [[nodiscard]] std::span<const Tensor> saved_operands() const noexcept { return object_->saved_; }
  [[nodiscard]] const Ref<VJPContextObject>& ref() const noexcept { return object_; }

 private:
  Ref<VJPContextObject> object_;
};

// --- Definitions (X23–X25) --------------------------------------------------------------------------------

/// One cotangent per result; nothing for a result that nobody differentiated.
using Cotangents = std::span<const std::optional<Tensor>>;

/// What an author writes; immutable, called from any thread (X130).
struct ORLOP_API OperationSemantics {
  OperationSemantics() = default;
  OperationSemantics(const OperationSemantics&) = delete;
  OperationSemantics& operator=(const OperationSemantics&) = delete;
  virtual ~OperationSemantics();

  /// The plan, results and effects of a call. It must return an invocation of that very call.
  [[nodiscard]] virtual ResolvedInvocation resolve(const BoundOperationCall& call) const = 0;
  [[nodiscard]] virtual bool has_reference() const { return false; }
  /// One Tensor per result. Default: UnsupportedOperationPlan ‹no reference›.
  [[nodiscard]] virtual std::vector<Tensor> reference(const ResolvedInvocation& invocation) const;
  /// Whether `vjp` is a rule; an explicit choice.
  [[nodiscard]] virtual bool differentiable() const = 0;
  /// One gradient per differentiable operand. Default: RuntimeError ‹no VJP›.
  [[nodiscard]] virtual Gradients vjp(const VJPContext& context, Cotangents cotangents) const;
};

/// An operation name with its schema and semantics. Lives forever.
class ORLOP_API OperationDefinition {
 public:
  OperationDefinition(std::string name, OperationSchema schema,
                      std::shared_ptr<const OperationSemantics> semantics, bool is_builtin);
  OperationDefinition(const OperationDefinition&) = delete;
  OperationDefinition& operator=(const OperationDefinition&) = delete;
  ~OperationDefinition();

  [[nodiscard]] const std::string& name() const noexcept { return name_; }
  [[nodiscard]] const OperationSchema& schema() const noexcept { return schema_; }
  [[nodiscard]] const OperationSemantics& semantics() const noexcept { return *semantics_; }
  [[nodiscard]] bool is_builtin() const noexcept { return is_builtin_; }

  /// X22; TypeError.
  [[nodiscard]] BoundOperationCall bind(std::vector<Argument> operands, OperationOptions options = {}) const;
  /// X24; ValueError ‹bound-call identity› where the semantics resolved another call.
  [[nodiscard]] ResolvedInvocation resolve_call(const BoundOperationCall& call) const;
  /// X25: runs on the carrier of the first Tensor; one Tensor per result.
  [[nodiscard]] std::vector<Tensor> call(std::vector<Argument> operands, OperationOptions options = {}) const;

  /// The positions that get a gradient: what the schema calls differentiable; for a built-in also a
  /// structural operand bound as a tensor.
  [[nodiscard]] std::vector<std::size_t> differentiable_operands(const BoundOperationCall& call) const;

 private:
  friend void detail::forget_semantics(const OperationDefinition& definition);
  std::string name_;
  OperationSchema schema_;
  std::shared_ptr<const OperationSemantics> semantics_;
  bool is_builtin_;
};

/// Registers `name` for good, all or nothing. Errors: ValueError ‹namespaced› unless it has two or more
/// dotted identifiers, ‹reserved› where the first is `orlop` or a built-in name, ‹already defined›; TypeError
/// for null semantics.
ORLOP_API const OperationDefinition& define_operation(std::string name, OperationSchema schema,
                                                      std::shared_ptr<const OperationSemantics> semantics);
/// The definition of a built-in or defined name, or null. The views have none.
[[nodiscard]] ORLOP_API const OperationDefinition* find_operation_definition(std::string_view name) noexcept;
/// The same, or LookupError.
[[nodiscard]] ORLOP_API const OperationDefinition& operation_definition(std::string_view name);
namespace detail {
/// The checks of a new name: ValueError ‹namespaced› or ‹reserved›.
ORLOP_API void check_operation_name(std::string_view name);
/// Every definition made outside the library.
[[nodiscard]] ORLOP_API std::vector<const OperationDefinition*> outside_definitions();
/// Drops what one of them holds, semantics and defaults, but keeps the name: for a binding's exit.
ORLOP_API void forget_semantics(const OperationDefinition& definition);
}  // namespace detail

/// X31: the reference of the invocation's definition, its results checked as a provider's are. Errors:
/// UnsupportedOperationPlan ‹no reference›.
[[nodiscard]] ORLOP_API std::vector<Tensor> execute_reference(const ResolvedInvocation& invocation);
/// X32: the gradients of the differentiable operands. Errors: ValueError and TypeError for cotangents or
/// gradients that do not fit, RuntimeError ‹no VJP›.
[[nodiscard]] ORLOP_API Gradients call_vjp(const VJPContext& context, Cotangents cotangents);

/// Whoever carries out an invocation did not do what it says.
class ORLOP_API ProviderContractError : public RuntimeError {
 public:
  using RuntimeError::RuntimeError;
  ~ProviderContractError() override;
};

}  // namespace orlop::inline v0
