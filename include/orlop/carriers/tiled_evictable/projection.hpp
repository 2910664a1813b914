// Between a tiled Tensor and ordinary ones: gathering chosen tiles into a compact Tensor, and building a
// tiled Tensor from one (X57-X60).
#pragma once

#include "orlop/carriers/tiled_evictable/tiled_evictable.hpp"
#include "orlop/movement/move.hpp"
#include "orlop/operation/operation.hpp"

namespace orlop::inline v0 {

/// The work of one projection.
class ORLOP_API ProjectionTask : public TensorTask {
 public:
  ~ProjectionTask() override;
};

/// The handle of a projection: `wait()` gives the compact Tensor.
class ORLOP_API AwaitProjection : public AwaitResult<Tensor> {
 public:
  explicit AwaitProjection(Ref<ProjectionTask> task) noexcept : AwaitResult(std::move(task)) {}
  [[nodiscard]] Ref<ProjectionTask> projection_task() const noexcept {
    return static_cast<ProjectionTask*>(task().get());
  }
};

/// Gathers the chosen tiles of `tensor`, which is full (X43), into an ordinary dense Tensor of shape
/// count[a] · tile_shape[a] on `destination`: a live, unowned, mutable carrier of exactly the primary's class
/// and dtype, large enough, or empty and able to grow; null: a fresh one. Until the end the destination is
/// owned by the projection. Tiles that are primary are gathered at once; the call waits for no transfer.
/// Errors in the order of X57; a failed projection gives the destination back.
ORLOP_API AwaitProjection project(const Tensor& tensor, const TileSelection& selection,
                                  const Ref<Carrier>& destination = {});

/// What becomes of a template's chosen tiles.
enum class Reduction { replace, add };

/// A new full Tensor like `template_tensor`, whose chosen tiles hold `compact`, laid out as project gives it,
/// alone or added to the template's values (implicit ones are zero); the other tiles are invalid. The inputs
/// stay as they are; `compact` is owned until the end. Errors in the order of X59.
ORLOP_API AwaitMove scatter(const Tensor& compact, const Tensor& template_tensor,
                            const TileSelection& selection, Reduction reduction = Reduction::replace);

/// The TiledEvictable behind a full Tensor: TypeError, RuntimeError ‹released›, ValueError as X43 says.
[[nodiscard]] ORLOP_API Ref<TiledEvictable> require_tiled(std::string_view what, std::string_view name,
                                                          const Tensor& tensor);

/// The autograd node of a projection (X58).
class ORLOP_API ProjectionOperation final : public Operation {
 public:
  ProjectionOperation(const Tensor& source, TileSelection selection);
  ~ProjectionOperation() override;
  /// The cotangent in the chosen tiles of a fresh carrier like the source's, whose other tiles are implicit.
  Gradients backward(const Tensor& gradient) override;
  [[nodiscard]] std::string implementation_name() const override { return "_ProjectionOperation"; }

 protected:
  Tensor forward_impl(std::span<const Argument> inputs) override;

 private:
  TileSelection selection_;
};

/// The autograd node of a scatter (X60).
class ORLOP_API ScatterOperation final : public Operation {
 public:
  ScatterOperation(const Tensor& compact, const Tensor& template_tensor, TileSelection selection,
                   Reduction reduction);
  ~ScatterOperation() override;
  /// For the compact Tensor the cotangent's chosen tiles; for the template the cotangent, without those where
  /// they were replaced.
  Gradients backward(const Tensor& gradient) override;
  [[nodiscard]] std::string implementation_name() const override { return "_ScatterOperation"; }

 protected:
  Tensor forward_impl(std::span<const Argument> inputs) override;

 private:
  TileSelection selection_;
  Reduction reduction_;
};

}  // namespace orlop::inline v0
