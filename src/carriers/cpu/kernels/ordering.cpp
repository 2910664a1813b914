// CPU sort and topk. Elements become unsigned keys in the wanted order, ascending; a radix sort moves them
// digit by digit, each digit stably. topk keeps the best so far and passes over blocks in which nothing beats
// them.
#include <algorithm>
#include <array>
#include <bit>
#include <cstdint>
#include <limits>
#include <memory>
#include <utility>
#include <vector>

#include "carriers/cpu/kernels/kernels.hpp"
#include "carriers/cpu/kernels/scratch.hpp"
#include "operation/axis_loops.hpp"
#include "operation/rounds.hpp"
#include "operation/strided_copy.hpp"
#include "orlop/base/parallel.hpp"

namespace orlop::inline v0 {

namespace {

using Key = std::uint32_t;
using Item = std::uint64_t;  // a key above a position: ascending items are a stable order

constexpr Index block_size = 128;             // elements that are looked at together, in vectors
constexpr Index selection_block = 32;         // the same where one that may win is then read one by one
constexpr Index long_fibre = Index{1} << 21;  // its sort takes a tenth of a second
constexpr Key greatest_key = 0xFFFFFFFFU;
constexpr Key sign_bit = 0x80000000U;

/// Both zeros have one key, and all NaNs the greatest one.
Key ascending_key(float x) {
  const auto bits = std::bit_cast<Key>(x + 0.0F);  // -0 becomes +0
  const Key key = bits ^ (static_cast<Key>(-static_cast<std::int32_t>(bits >> 31)) | sign_bit);
  return x != x ? greatest_key : key;
}
Key ascending_key(std::int32_t x) { return static_cast<Key>(x) ^ sign_bit; }

template <bool IsDescending, class T>
Key key_of(T x) {
  return IsDescending ? ~ascending_key(x) : ascending_key(x);
}

/// What has this key: +0 for zeros, and some NaN.
template <bool IsDescending, class T>
T element_of(Key key) {
  if (IsDescending) key = ~key;
  if constexpr (std::is_same_v<T, float>) {
    return std::bit_cast<float>(key ^ (((key >> 31) - 1) | sign_bit));
  } else {
    return static_cast<std::int32_t>(key ^ sign_bit);
  }
}

Item item_of(Key key, Index position) { return Item{key} << 32 | static_cast<Item>(position); }
std::int32_t position_of(Item item) { return static_cast<std::int32_t>(static_cast<Key>(item)); }

/// Room for the sorts of one call: the keys, and twice the words that move.
class Room {
 public:
  explicit Room(Index elements) : size_(elements), keys_(elements), items_(2 * elements) {}

  [[nodiscard]] Key* keys() const { return keys_.data(); }
  /// Both halves, as items or as keys.
  template <class Word>
  [[nodiscard]] std::array<Word*, 2> words() const {
    return {reinterpret_cast<Word*>(items_.data()), reinterpret_cast<Word*>(items_.data() + size_)};
  }

 private:
  Index size_;
  Scratch<Key> keys_;
  Scratch<Item> items_;
};

Key key_in(Item item) { return static_cast<Key>(item >> 32); }
Key key_in(Key key) { return key; }

/// The elements of one sort in ranges: one for each thread, in long sorts some.
class Ranges {
 public:
  explicit Ranges(Index size)
      : size_(size),
        count_(std::clamp(size / parallel_grain, Index{1}, std::max(thread_count(), size / long_fibre))) {}

  [[nodiscard]] std::size_t count() const { return static_cast<std::size_t>(count_); }
  /// Calls `body(range, first, last)` for each.
  template <class Body>
  void for_each(Body body) const {
    parallel_for(count_, Work{size_ / count_}, [&](Index range, Index end) {
      for (; range < end; ++range)
        body(static_cast<std::size_t>(range), size_ * range / count_, size_ * (range + 1) / count_);
    });
  }

 private:
  Index size_;
  Index count_;
};

/// What is known of some keys.
struct KeyRange {
  Key least = ~Key{0};
  Key greatest = 0;
  Key set_somewhere = 0;
  Key set_everywhere = ~Key{0};

  void add(const KeyRange& other) {
    least = std::min(least, other.least);
    greatest = std::max(greatest, other.greatest);
    set_somewhere |= other.set_somewhere;
    set_everywhere &= other.set_everywhere;
  }
};

/// Writes the keys of all elements.
template <class KeyAt>
KeyRange make_keys(const Ranges& ranges, KeyAt key_at, Key* keys) {
  std::vector<KeyRange> parts(ranges.count());
  ranges.for_each([&](std::size_t range, Index first, Index last) {
    KeyRange part;
    for (; first < last; first += block_size) {  // two loops over cached keys, which compilers vectorize
      const Index end = std::min(first + block_size, last);
      for (Index i = first; i < end; ++i) keys[i] = key_at(i);
      for (Index i = first; i < end; ++i) part.add({keys[i], keys[i], keys[i], keys[i]});
    }
    parts[range] = part;
  });
  KeyRange whole;
  for (const KeyRange& part : parts) whole.add(part);
  return whole;
}

constexpr unsigned digit_bits = 8;
constexpr Key digit_mask = (Key{1} << digit_bits) - 1;
using Counts = std::array<Key, std::size_t{digit_mask} + 1>;

/// How often each digit occurs at positions `first` … `last - 1`.
template <class DigitAt>
Counts count_digits(Index first, Index last, DigitAt digit_at) {
  std::array<Counts, 4> counts{};  // so that equal neighbours do not wait for one another
  for (; first + 4 <= last; first += 4)
    for (Index i = 0; i < 4; ++i) ++counts[static_cast<std::size_t>(i)][digit_at(first + i)];
  for (; first < last; ++first) ++counts[0][digit_at(first)];
  for (std::size_t digit = 0; digit <= digit_mask; ++digit)
    counts[0][digit] += counts[1][digit] + counts[2][digit] + counts[3][digit];
  return counts[0];
}

/// Puts each word of positions `first` … `last - 1` at the next place of its digit.
template <class WordAt, class DigitOf, class Put>
void put_words(Index first, Index last, Counts places, WordAt word_at, DigitOf digit_of, Put put) {
  for (; first < last; ++first) {
    const auto word = word_at(first);
    put(places[digit_of(word)]++, word);
  }
}

/// Orders the words at all positions by one digit, stably.
template <class WordAt, class Put>
void move_words(const Ranges& ranges, unsigned shift, WordAt word_at, Put put) {
  const auto digit_of = [shift](auto word) { return key_in(word) >> shift & digit_mask; };
  std::vector<Counts> places(ranges.count());
  ranges.for_each([&](std::size_t range, Index first, Index last) {
    places[range] = count_digits(first, last, [=](Index i) { return digit_of(word_at(i)); });
  });
  Key sum = 0;
  for (std::size_t digit = 0; digit <= digit_mask; ++digit)
    for (Counts& counts : places) sum += std::exchange(counts[digit], sum);
  ranges.for_each([&](std::size_t range, Index first, Index last) {
    put_words(first, last, places[range], word_at, digit_of, put);
  });
}

/// The digits that order some keys, from the least one on: those of `key - base` from each of `shifts`.
struct Digits {
  Key base = 0;
  SmallVector<unsigned, 4> shifts;
};

/// Of the keys as they are, or of what they have above the least one, whichever are fewer.
Digits find_digits(const KeyRange& range) {
  Digits digits;
  const Key differing = range.set_somewhere & ~range.set_everywhere;
  for (unsigned shift = 0; shift < 32; shift += digit_bits)
    if ((differing >> shift & digit_mask) != 0) digits.shifts.push_back(shift);
  const unsigned width = static_cast<unsigned>(std::bit_width(range.greatest - range.least));
  SmallVector<unsigned, 4> shifts;
  for (auto shift = static_cast<unsigned>(std::countr_zero(differing)); shift < width; shift += digit_bits)
    shifts.push_back(shift);
  if (shifts.size() < digits.shifts.size()) digits = {range.least, shifts};
  return digits;
}

/// A stable sort by keys, in digits of 8 bits, of which only those move words that differ: `write(place,
/// word)` gets each word, which is `word_of(key, position)` of an element. Elements are read once: another
/// thread may write them meanwhile.
template <class Word, class KeyAt, class WordOf, class Write>
void radix_sort(Index size, const Room& room, KeyAt key_at, WordOf word_of, Write write) {
  const Ranges ranges(size);
  Key* const keys = room.keys();
  const Digits digits = find_digits(make_keys(ranges, key_at, keys));
  const std::size_t count = digits.shifts.size();

  const std::array<Word*, 2> rooms = room.words<Word>();
  const auto made = [=, base = digits.base](Index i) { return word_of(keys[i] - base, i); };
  const auto write_whole = [=, base = word_of(digits.base, 0)](Key place, Word word) {
    write(place, base + word);
  };
  const auto move_digit = [&](std::size_t digit, auto word_at) {
    if (digit + 1 == count)
      move_words(ranges, digits.shifts[digit], word_at, write_whole);
    else
      move_words(ranges, digits.shifts[digit], word_at,
                 [to = rooms[digit % 2]](Key place, Word word) { to[place] = word; });
  };
  if (count == 0)
    for (Index i = 0; i < size; ++i) write_whole(static_cast<Key>(i), made(i));
  else
    move_digit(0, made);
  for (std::size_t digit = 1; digit < count; ++digit)
    move_digit(digit, [from = rooms[(digit - 1) % 2]](Index i) { return from[i]; });
}

/// The first `count` of the items of elements `first` … `last` - 1, in order, each moved to its place among
/// those before it: where either are few.
template <bool IsDescending, class T>
void insert_items(const T* elements, Index first, Index last, Index count, Item* items) {
  Index kept = 0;
  for (Index i = first; i < last; ++i) {
    const Item one = item_of(key_of<IsDescending>(elements[i]), i);
    if (kept == count && one > items[count - 1]) continue;
    Index place = kept < count ? kept++ : count - 1;
    for (; place > 0 && items[place - 1] > one; --place) items[place] = items[place - 1];
    items[place] = one;
  }
}

constexpr Index few_inserted = 32;
/// Elements that merges of inserted ones order faster: integers tend to have few digits that differ.
template <class T>
constexpr Index few = std::is_same_v<T, float> ? 64 : 48;

/// The items of `size` elements in order: `write(place, item)` gets each.
template <bool IsDescending, class T, class Write>
void sort_items(const T* elements, Index size, const Room& room, Write write) {
  if (size > few<T>) {
    radix_sort<Item>(
        size, room, [=](Index i) { return key_of<IsDescending>(elements[i]); },
        [](Key key, Index position) { return item_of(key, position); }, write);
    return;
  }
  std::array<Item, few<T>> inserted, merged;
  Item* from = inserted.data();
  Item* to = merged.data();
  for (Index first = 0; first < size; first += few_inserted)
    insert_items<IsDescending>(elements, first, std::min(first + few_inserted, size), few_inserted,
                               from + first);
  for (Index length = few_inserted; length < size; length *= 2) {
    for (Index first = 0; first < size; first += 2 * length) {
      const Index middle = std::min(first + length, size);
      const Index last = std::min(first + 2 * length, size);
      std::merge(from + first, from + middle, from + middle, from + last, to + first);
    }
    std::swap(from, to);
  }
  for (Index i = 0; i < size; ++i) write(static_cast<Key>(i), from[i]);
}

/// Gives the elements of `sorted` that are zero, or NaN, the bits of those of `elements`, in their order
/// there.
template <bool IsDescending>
void restore_bits(const float* elements, Index size, float* sorted) {
  const auto equal_to = [=](float x) {
    return std::equal_range(sorted, sorted + size, x, [](float a, float b) {
      return key_of<IsDescending>(a) < key_of<IsDescending>(b);
    });
  };
  auto [zero, last_zero] = equal_to(0.0F);
  auto [nan, last_nan] = equal_to(std::numeric_limits<float>::quiet_NaN());
  const auto is_special = [](float x) {
    return static_cast<std::uint32_t>(x == 0) | static_cast<std::uint32_t>(x != x);
  };
  const auto restore = [&](Index first, Index end) {
    std::uint32_t is_any = 0;
    for (Index i = first; i < end; ++i) is_any |= is_special(elements[i]);
    if (is_any == 0) return;
    for (Index i = first; i < end; ++i) {
      const float x = elements[i];
      if (x == 0 && zero != last_zero) *zero++ = x;
      if (x != x && nan != last_nan) *nan++ = x;
    }
  };
  serial_for(size, 1, [&](Index first, Index last) {
    for (; first < last; first += block_size) restore(first, std::min(first + block_size, last));
  });
}

/// Orders elements without their positions: only keys move, and equal keys mean equal bits but for zeros and
/// NaNs.
template <bool IsDescending, class T>
void sort_values(const T* elements, Index size, const Room& room, T* sorted) {
  if (size <= few<T>)
    return sort_items<IsDescending>(
        elements, size, room, [=](Key place, Item item) { sorted[place] = elements[position_of(item)]; });
  radix_sort<Key>(
      size, room, [=](Index i) { return key_of<IsDescending>(elements[i]); },
      [](Key key, Index) { return key; },
      [=](Key place, Key key) { sorted[place] = element_of<IsDescending, T>(key); });
  if constexpr (std::is_same_v<T, float>) restore_bits<IsDescending>(elements, size, sorted);
}

/// Whether an element of a block may come before `last`, which came earlier.
template <bool IsDescending, class T>
bool may_precede(const T* elements, Index size, T last) {
  if constexpr (std::is_same_v<T, float>)
    if (last != last) return !IsDescending;  // NaN is the greatest
  std::uint32_t is_any = 0;
  for (Index i = 0; i < size; ++i)
    is_any |= static_cast<std::uint32_t>(IsDescending ? !(elements[i] <= last) : elements[i] < last);
  return is_any != 0;
}

/// The first `count` items of `size` elements, in order, to `items`, which has room for `2 * count`.
template <bool IsDescending, class T>
void select_items(const T* elements, Index size, Index count, Item* items) {
  const Index room = 2 * count;
  Index kept = 0;
  Item limit = ~Item{0};  // what comes after it is not among the first
  T last{};               // its element
  const auto keep_first = [&] {
    std::nth_element(items, items + count - 1, items + kept);
    kept = count;
    limit = items[count - 1];
    last = elements[position_of(limit)];
  };
  const auto select = [&](Index first, Index end) {
    if (limit != ~Item{0} && !may_precede<IsDescending>(elements + first, end - first, last)) return;
    for (Index i = first; i < end; ++i) {
      const Item item = item_of(key_of<IsDescending>(elements[i]), i);
      if (item > limit) continue;
      items[kept++] = item;
      if (kept == room) keep_first();
    }
  };
  serial_for(size, 1, [&](Index first, Index end) {
    for (; first < end; first += selection_block) select(first, std::min(first + selection_block, end));
  });
  std::nth_element(items, items + count - 1, items + kept);
  std::sort(items, items + count);
}

// --- One fibre ------------------------------------------------------------------------------------------

/// What is written of an element.
enum class Written { values, indices };

template <bool IsDescending, class T, Written What>
class Order {
 public:
  using Result = std::conditional_t<What == Written::values, T, std::int32_t>;

  /// Fibres of `size` elements, of which the first `count` in order are wanted.
  Order(Index size, Index count)
      : size_(size),
        count_(count),
        is_inserting_(count <= 16 && (size <= few<T> || count >= size / 32)),
        is_selecting_(is_inserting_ || count < size / 32),
        room_(is_selecting_ || size <= few<T> ? 0 : size),
        selected_(
            std::make_unique_for_overwrite<Item[]>(static_cast<std::size_t>(is_selecting_ ? 2 * count : 0))) {
  }

  void operator()(const T* elements, Result* result) {
    const auto write = [=](Index place, Item item) {
      if constexpr (What == Written::values)
        result[place] = elements[position_of(item)];
      else
        result[place] = position_of(item);
    };
    if (is_selecting_) {
      if (is_inserting_)
        insert_items<IsDescending>(elements, 0, size_, count_, selected_.get());
      else
        select_items<IsDescending>(elements, size_, count_, selected_.get());
      for (Index i = 0; i < count_; ++i) write(i, selected_[static_cast<std::size_t>(i)]);
    } else if (What == Written::values && count_ == size_) {
      if constexpr (What == Written::values) sort_values<IsDescending>(elements, size_, room_, result);
    } else {
      sort_items<IsDescending>(elements, size_, room_, [write, count = count_](Key place, Item item) {
        if (place < count) write(place, item);
      });
    }
  }

 private:
  Index size_;
  Index count_;
  bool is_inserting_;
  bool is_selecting_;  // instead of sorting all
  Room room_;
  std::unique_ptr<Item[]> selected_;
};

// --- All fibres -----------------------------------------------------------------------------------------

constexpr Index panel_fibres = 16;                // neighbours that are copied together
constexpr Index element_work = 4;                 // of a cheap loop's elements
constexpr Index panel_elements = Index{1} << 20;  // of a panel, where that leaves one fibre

/// Neighbouring fibres, each in one piece.
template <class T>
class Panel {
 public:
  Panel(Index fibres, Index size)
      : pitch_(size + 16),  // neighbours do not fall on the same cache sets
        elements_(fibres * pitch_) {}

  [[nodiscard]] T* fibre(Index number) { return elements_.data() + number * pitch_; }
  [[nodiscard]] Index pitch() const { return pitch_; }

 private:
  Index pitch_;
  Scratch<T> elements_;
};

/// Copies `width` neighbouring fibres, the first of which begins at `first`.
template <class T>
void read_panel(const AxisLoops& loops, const T* first, Index width, Panel<T>& panel) {
  constexpr Index bytes = sizeof(T);
  const Index step = loops.along.step(0) * bytes;
  T* to = panel.fibre(0);
  for_each_run_in_rounds(loops.along, width, [&](std::span<const Index> offsets, Index count) {
    const Plane plane{count, step, bytes, width, loops.fibres.step(0) * bytes, panel.pitch() * bytes};
    copy_plane(reinterpret_cast<const std::byte*>(first + offsets[0]), reinterpret_cast<std::byte*>(to),
               plane, bytes);
    to += count;
  });
}

/// Copies the first `count` elements of each fibre to the result.
template <class T>
void write_panel(const AxisLoops& loops, Panel<T>& panel, Index count, Index width, T* first) {
  constexpr Index bytes = sizeof(T);
  serial_for(count, width, [&](Index start, Index end) {
    const Plane plane{width, panel.pitch() * bytes,    loops.fibres.step(1) * bytes, end - start,
                      bytes, loops.result_step * bytes};
    copy_plane(reinterpret_cast<const std::byte*>(panel.fibre(0) + start),
               reinterpret_cast<std::byte*>(first + start * loops.result_step), plane, bytes);
  });
}

template <bool IsDescending, class T, Written What>
void order_fibres(const KernelCall& call) {
  using Ordering = Order<IsDescending, T, What>;
  using Result = Ordering::Result;
  const AxisLoops loops = axis_loops(call);
  const StridedLoop& fibres = loops.fibres;
  const Index size = loops.along.size;
  const Index count = call.layout.size() / fibres.size;
  const bool reads_in_place = loops.along.is_contiguous(0);
  const bool writes_in_place = loops.result_step == 1;
  const Index together =
      reads_in_place && writes_in_place ? 1 : std::clamp(panel_elements / size, Index{1}, panel_fibres);
  const auto order_panel = [&](Ordering& order, Panel<T>& source, Panel<Result>& target, const T* from,
                               Result* to, Index width) {
    if (!reads_in_place) read_panel(loops, from, width, source);
    for (Index fibre = 0; fibre < width; ++fibre)
      order(reads_in_place ? from + fibre * fibres.step(0) : source.fibre(fibre),
            writes_in_place ? to + fibre * fibres.step(1) : target.fibre(fibre));
    if (!writes_in_place) write_panel(loops, target, count, width, to);
  };
  const Index least = size > long_fibre ? fibres.size : 1;  // long ones take all threads, one by one
  parallel_for(fibres.size, Work{element_work * size, least}, [&](Index begin, Index end) {
    Ordering order(size, count);
    Panel<T> source(reads_in_place ? 0 : together, size);
    Panel<Result> target(writes_in_place ? 0 : together, count);
    for_each_run(fibres, begin, end, [&](std::span<const Index> offsets, Index run) {
      for (Index first = 0; first < run; first += together)
        order_panel(order, source, target,
                    reinterpret_cast<const T*>(call.operands[0].data) + offsets[0] + first * fibres.step(0),
                    reinterpret_cast<Result*>(call.result) + offsets[1] + first * fibres.step(1),
                    std::min(together, run - first));
    });
  });
}

template <class T, Written What>
void order_elements(const KernelCall& call) {
  if (call.parameters.is_descending)
    order_fibres<true, T, What>(call);
  else
    order_fibres<false, T, What>(call);
}

template <Written What>
void order(const KernelCall& call) {
  if (call.operands[0].stored == StorageType::float32)
    order_elements<float, What>(call);
  else
    order_elements<std::int32_t, What>(call);
}

}  // namespace

KernelList cpu_ordering_kernels() {
  static constexpr KernelEntry list[] = {{"_sort_values", order<Written::values>},
                                         {"_sort_indices", order<Written::indices>},
                                         {"_topk_values", order<Written::values>},
                                         {"_topk_indices", order<Written::indices>}};
  return list;
}

}  // namespace orlop::inline v0
