// Transfer routes: how values move from a class with a CarrierDefinition to one exact other class (X20).
#pragma once

#include <functional>
#include <memory>
#include <string>

#include "orlop/extension/completion.hpp"
#include "orlop/tensor/tensor.hpp"

namespace orlop::inline v0 {

/// One move, as a provider is asked about it. Both carriers are owned by the move.
struct ORLOP_API TransferRequest {
  Tensor tensor;
  Ref<Carrier> destination;
  CarrierClass source_class;
  CarrierClass destination_class;
  const DType* dtype;
  Layout layout;
  Index physical_span;  ///< slots from `tensor.offset()` that belong to the Tensor: the layout's cosize
};

/// Work that is ready: `submit` starts it, at most once, and gives nothing where it is over, else its
/// completion. The values of the source's span then lie in the destination from slot 0.
struct ORLOP_API PreparedTransfer {
  /// TypeError for an empty function.
  explicit PreparedTransfer(std::function<std::shared_ptr<ProviderCompletion<void>>()> work);

  std::function<std::shared_ptr<ProviderCompletion<void>>()> submit;
};

class ORLOP_API TransferProvider {
 public:
  TransferProvider() = default;
  TransferProvider(const TransferProvider&) = delete;
  TransferProvider& operator=(const TransferProvider&) = delete;
  virtual ~TransferProvider();

  /// Decides whether this request can be carried out; changes nothing. A destination of size 0 grows to the
  /// span before submit.
  [[nodiscard]] virtual Result<PreparedTransfer> prepare(const TransferRequest& request) const = 0;
};

/// A provider of one lambda. TypeError where it is empty.
[[nodiscard]] ORLOP_API std::shared_ptr<const TransferProvider> make_transfer(
    std::function<Result<PreparedTransfer>(const TransferRequest&)> prepare);

/// The route of an exact pair of classes, part of the source's CarrierDefinition.
struct ORLOP_API TransferRoute {
  CarrierClass source_class;
  CarrierClass destination_class;
  std::string route_id;
  std::shared_ptr<const TransferProvider> provider;

  /// TypeError for a missing class or provider, ValueError for an empty route_id.
  void validate() const;
};

}  // namespace orlop::inline v0
