// The table of tiles: pages, and the two lists of victims.
#include "carriers/tiled_evictable/tile_table.hpp"

#include <pthread.h>

#include "orlop/base/log.hpp"

namespace orlop::inline v0::detail {

namespace {

std::mutex the_mutex;
std::condition_variable the_condition;

// A thread may hold the lock while another forks: the child would find it locked for ever.
[[maybe_unused]] const int handlers =
    pthread_atfork([] { the_mutex.lock(); }, [] { the_mutex.unlock(); }, [] { the_mutex.unlock(); });

}  // namespace

std::mutex& residency_mutex() noexcept { return the_mutex; }
std::condition_variable& residency_changed() noexcept { return the_condition; }

TileStorage::TileStorage(Ref<Carrier> carrier)
    : carrier_(std::move(carrier)), token_(carrier_->claim_ownership()) {}

TileStorage::~TileStorage() {
  try {
    if (is_retired_ && !carrier_->is_released()) {
      const OwnerAccess scope = access();
      carrier_->release();
    }
  } catch (...) {
    log(LogChannel::residency, "TiledEvictable: the storage of a tile, a ", carrier_->carrier_class(),
        ", could not be released");
  }
  try {
    carrier_->relinquish_ownership(token_);
  } catch (const RuntimeError&) {  // the child of a fork has forgotten the owner
  }
}

TileTable::TileTable(Index count, const TileFlags& initial) : count_(count), initial_(initial) {
  if (count > kMostTiles)
    raise<ValueError>("TiledEvictable", "the grid has too many tiles: ", count, "; at most ", kMostTiles,
                      " are possible; use larger tiles");
  pages_.resize(static_cast<std::size_t>((count + kPage - 1) / kPage));
}

Tile& TileTable::edit(Index tile) {
  std::unique_ptr<Page>& page = pages_[static_cast<std::size_t>(tile / kPage)];
  if (page == nullptr) {
    page = std::make_unique<Page>();
    const TileFlags& flags = initial_;
    for (Tile& fresh : *page) static_cast<TileFlags&>(fresh) = flags;
  }
  return (*page)[static_cast<std::size_t>(tile % kPage)];
}

void TileTable::retire_all() noexcept {
  for (const std::unique_ptr<Page>& page : pages_)
    if (page != nullptr)
      for (const Tile& tile : *page)
        for (const Ref<TileStorage>* storage : {&tile.primary, &tile.secondary})
          if (*storage) (*storage)->retire();
}

void TileTable::visit_references(ReferenceVisitor& visitor) const {
  for (const std::unique_ptr<Page>& page : pages_)
    if (page != nullptr)
      for (const Tile& tile : *page)
        for (const Ref<TileStorage>* storage : {&tile.primary, &tile.secondary}) visitor.visit(*storage);
}

void TileTable::touch(Index tile) {
  unlink(tile);
  Tile& entry = edit(tile);
  if (entry.location != TileLocation::primary || entry.is_pending || entry.holds != 0) return;
  List& list = lists_[entry.is_backed && !entry.is_dirty ? 0 : 1];
  const auto link = static_cast<std::uint32_t>(tile + 1);
  entry.older = list.newest;
  entry.newer = 0;
  (list.newest != 0 ? edit(Index{list.newest} - 1).newer : list.oldest) = link;
  list.newest = link;
  entry.is_linked = true;
}

void TileTable::unlink(Index tile) noexcept {
  if (!(*this)[tile].is_linked) return;
  Tile& entry = edit(tile);
  const auto link = static_cast<std::uint32_t>(tile + 1);
  const std::size_t list = lists_[0].oldest == link || lists_[0].newest == link ? 0 : 1;
  (entry.older != 0 ? edit(Index{entry.older} - 1).newer : lists_[list].oldest) = entry.newer;
  (entry.newer != 0 ? edit(Index{entry.newer} - 1).older : lists_[list].newest) = entry.older;
  entry.is_linked = false;
}

}  // namespace orlop::inline v0::detail
