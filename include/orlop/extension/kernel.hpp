// Kernels from outside the library: which plans of which operations they carry out, and the packs that add
// more of them to a class with a CarrierDefinition (X13-X18).
#pragma once

#include <cstdint>
#include <functional>
#include <memory>
#include <string>
#include <typeindex>
#include <utility>
#include <variant>
#include <vector>

#include "orlop/extension/completion.hpp"
#include "orlop/operation/capability.hpp"
#include "orlop/operation/operation_definition.hpp"

namespace orlop::inline v0 {

/// What kernels of one class rely on: a device context, a calling convention. A pack fits where its interface
/// is compatible: of the same dynamic type and version. Derive to add what kernels need.
class ORLOP_API KernelExecutionInterface {
 public:
  /// ValueError for an empty version.
  explicit KernelExecutionInterface(std::string version);
  KernelExecutionInterface(const KernelExecutionInterface&) = delete;
  KernelExecutionInterface& operator=(const KernelExecutionInterface&) = delete;
  virtual ~KernelExecutionInterface();

  [[nodiscard]] const std::string& version() const noexcept { return version_; }
  /// The dynamic type: of C++, and of another language where the object is written in one.
  [[nodiscard]] virtual std::pair<std::type_index, const void*> type_identity() const noexcept;
  [[nodiscard]] bool is_compatible_with(const KernelExecutionInterface& other) const noexcept {
    return version_ == other.version_ && type_identity() == other.type_identity();
  }

 private:
  std::string version_;
};

/// The Tensors that one invocation gives, in result order. Errors: ValueError where there is none, TypeError
/// for a null one.
struct ORLOP_API ProviderResult {
  explicit ProviderResult(std::vector<Tensor> results);

  std::vector<Tensor> outputs;
};

/// What submit returns: the result, or a completion of it.
using ProviderSubmission = std::variant<ProviderResult, std::shared_ptr<ProviderCompletion<ProviderResult>>>;

/// A kernel that is ready to run one invocation; `submit` is called at most once. TypeError for a null
/// interface or an empty function.
struct ORLOP_API PreparedKernel {
  PreparedKernel(std::shared_ptr<const KernelExecutionInterface> kernel_interface,
                 std::function<ProviderSubmission()> work);

  std::shared_ptr<const KernelExecutionInterface> interface;
  std::function<ProviderSubmission()> submit;
};

class ORLOP_API Kernel {
 public:
  Kernel() = default;
  Kernel(const Kernel&) = delete;
  Kernel& operator=(const Kernel&) = delete;
  virtual ~Kernel();

  /// Decides whether this invocation can be carried out, and readies it. Changes no operand.
  [[nodiscard]] virtual Result<PreparedKernel> prepare(const ResolvedInvocation& invocation,
                                                       const KernelExecutionInterface& interface) const = 0;
};

/// A kernel of one lambda. TypeError where it is empty.
[[nodiscard]] ORLOP_API std::shared_ptr<const Kernel> make_kernel(
    std::function<Result<PreparedKernel>(const ResolvedInvocation&, const KernelExecutionInterface&)>
        prepare);

/// One kernel and the exact plans that it may be asked about; a higher preference is asked first.
struct ORLOP_API KernelPattern {
  const OperationDefinition* operation = nullptr;
  std::vector<OperationCapability> plans;
  std::string kernel_id;
  std::shared_ptr<const Kernel> prepare;
  std::int64_t preference = 0;

  /// X14. TypeError for a missing operation or kernel; ValueError for an operation that is not the registered
  /// one, no plan, ‹duplicate› plans, a plan of another operation, an empty kernel_id.
  void validate() const;
};

/// The kernels that come with a definition; packs add to them.
struct ORLOP_API KernelProvider {
  std::shared_ptr<const KernelExecutionInterface> interface;
  std::vector<KernelPattern> patterns{};

  /// TypeError for a missing interface, ValueError for a repeated kernel_id; and those of the patterns.
  void validate() const;
};

/// Kernels for somebody else's carrier class.
struct ORLOP_API KernelPack {
  std::string name_space;
  std::string version;
  CarrierClass carrier_class;
  std::shared_ptr<const KernelExecutionInterface> execution_interface;
  std::vector<KernelPattern> patterns;

  /// TypeError for a missing class or interface; ValueError ‹must not be empty›, or for a repeated kernel_id;
  /// and those of the patterns.
  void validate() const;
};

/// Adds a pack to its class, all or nothing, before the class is observed. Errors X15: TypeError where
/// exactly that class has no CarrierDefinition, is dependent, storage-only or already observed, or where the
/// interface does not match; ValueError where the namespace and version, or a kernel_id, are taken.
ORLOP_API void register_kernel_pack(KernelPack pack);

}  // namespace orlop::inline v0
