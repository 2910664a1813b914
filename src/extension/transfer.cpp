// The move operation of a TransferRoute.
#include "orlop/extension/transfer.hpp"

#include "extension/class_definition.hpp"

namespace orlop::inline v0 {

TransferProvider::~TransferProvider() = default;

PreparedTransfer::PreparedTransfer(std::function<std::shared_ptr<ProviderCompletion<void>>()> work)
    : submit(std::move(work)) {
  if (!submit) raise<TypeError>("PreparedTransfer", "submit must be callable: it is empty");
}

void TransferRoute::validate() const {
  constexpr std::string_view what = "TransferRoute";
  if (!source_class) raise<TypeError>(what, "source_class must be a Carrier class: got none");
  if (!destination_class) raise<TypeError>(what, "destination_class must be a Carrier class: got none");
  if (route_id.empty()) raise<ValueError>(what, "route_id must not be empty; give the route a name");
  if (provider == nullptr) raise<TypeError>(what, "provider must be a TransferProvider: there is none");
}

namespace {

class FunctionTransfer final : public TransferProvider {
 public:
  using Prepare = std::function<Result<PreparedTransfer>(const TransferRequest&)>;
  explicit FunctionTransfer(Prepare prepare) : prepare_(std::move(prepare)) {}
  [[nodiscard]] Result<PreparedTransfer> prepare(const TransferRequest& request) const override {
    return prepare_(request);
  }

 private:
  Prepare prepare_;
};

/// What `prepare` must leave as it is.
struct Snapshot {
  std::int64_t version;
  Index size;
  bool is_released;

  explicit Snapshot(const Carrier& carrier)
      : version(carrier.version()), size(carrier.size()), is_released(carrier.is_released()) {}
  bool operator==(const Snapshot&) const = default;
};

/// Moves through a provider; one that declines leaves it to the elementwise copy, where both classes allow
/// it.
class TransferMoveOperation final : public ElementwiseMoveOperation {
 public:
  explicit TransferMoveOperation(const TransferRoute& route) : route_(route) {}

  [[nodiscard]] CarrierClass source_class() const override { return route_.source_class; }
  [[nodiscard]] CarrierClass destination_class() const override { return route_.destination_class; }
  [[nodiscard]] std::string implementation_name() const override { return "TransferMoveOperation"; }

 protected:
  void begin(const Tensor& tensor, const Ref<Carrier>& destination) override {
    const TransferRequest request{
        tensor,          destination,     route_.source_class,     route_.destination_class,
        &tensor.dtype(), tensor.layout(), tensor.layout().cosize()};
    const Snapshot source_before(*tensor.carrier());
    const Snapshot destination_before(*destination);
    Result<PreparedTransfer> answer = route_.provider->prepare(request);
    if (!(Snapshot(*tensor.carrier()) == source_before) || !(Snapshot(*destination) == destination_before))
      raise<RuntimeError>(route_.route_id,
                          "prepare must change neither carrier: a version, an extent or the release state "
                          "changed; write in submit");
    prepared_.reset();
    if (auto* prepared = std::get_if<PreparedTransfer>(&answer))
      prepared_.emplace(std::move(*prepared));
    else
      require_fallback(std::get<Unsupported>(answer).reason);
  }

  void submit(const Tensor& tensor, const Ref<Carrier>& destination) override {
    if (!prepared_) return;
    provide_room(tensor, *destination);
    expect_writes();
    const PreparedTransfer once = std::move(*prepared_);
    prepared_.reset();
    completion_ = once.submit();
    is_submitted_ = true;
  }

  Tensor transfer(const Tensor& tensor, const Ref<Carrier>& destination) override {
    if (!std::exchange(is_submitted_, false)) return ElementwiseMoveOperation::transfer(tensor, destination);
    if (const auto completion = std::exchange(completion_, nullptr))
      detail::finish(completion, route_.route_id);
    return Tensor::trusted(destination, 0, tensor.layout());
  }

 private:
  void require_fallback(const std::string& reason) const {
    const ClassDefinition* source = find_class_definition(route_.source_class);
    const ClassDefinition* destination = find_class_definition(route_.destination_class);
    if (destination == nullptr || !source->copies_elementwise() || !destination->copies_elementwise())
      raise<NotImplementedError>("move", "the route of (", route_.source_class, ", ",
                                 route_.destination_class, ") declines: ", reason);
  }

  TransferRoute route_;
  std::optional<PreparedTransfer> prepared_;
  std::shared_ptr<ProviderCompletion<void>> completion_;
  bool is_submitted_ = false;
};

}  // namespace

std::shared_ptr<const TransferProvider> make_transfer(FunctionTransfer::Prepare prepare) {
  if (!prepare) raise<TypeError>("TransferProvider", "prepare must be callable: it is empty");
  return std::make_shared<FunctionTransfer>(std::move(prepare));
}

MoveRoute ClassDefinition::route_to(CarrierClass destination_class) const {
  for (const TransferRoute& route : definition_.transfers)
    if (route.destination_class == destination_class)
      return {route.route_id,
              [&route] { return Ref<MoveOperation>(make_ref<TransferMoveOperation>(route)); },
              &typeid(TransferMoveOperation),
              {}};
  return {};
}

}  // namespace orlop::inline v0
