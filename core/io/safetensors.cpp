#include "core/io/safetensors.h"

#include <algorithm>
#include <array>
#include <bit>
#include <cctype>
#include <fstream>
#include <nlohmann/json.hpp>
#include <set>
#include <span>

#include "core/io/atomic_file.h"
#include "core/io/read_file.h"

namespace brigade {
namespace {

using Json = nlohmann::ordered_json;
namespace fs = std::filesystem;

static_assert(std::endian::native == std::endian::little, "safetensors data is little-endian");

constexpr std::uint64_t kLengthBytes = 8;
constexpr std::uint64_t kLargestHeader = 100'000'000;  // the limit of the format's own library
constexpr int kDeepestHeader = 3;                      // the numbers of a tensor's shape
constexpr const char* kMetadataKey = "__metadata__";
constexpr std::array kDTypes{DType::f32, DType::f64, DType::u8,
                             DType::i64, DType::f16, DType::bf16};

/// "F32": ours in capitals.
std::string name_of(DType dtype) {
  std::string name = fmt::format("{}", dtype);
  std::ranges::transform(name, name.begin(), [](unsigned char c) { return std::toupper(c); });
  return name;
}

std::string make_header(const NamedTensors& tensors) {
  Json header{{kMetadataKey, {{"format", "pt"}}}};  // Hugging Face's transformers asks for it
  std::uint64_t offset = 0;
  for (const auto& [name, tensor] : tensors) {
    BRIGADE_CHECK(tensor.defined(), "safetensors: tensor {} is undefined", name);
    BRIGADE_CHECK(!header.contains(name), "safetensors: name {} is given twice or reserved", name);
    const auto extents = tensor.shape().extents();
    header[name] = {{"dtype", name_of(tensor.dtype())},
                    {"shape", std::vector<std::int64_t>(extents.begin(), extents.end())},
                    {"data_offsets", {offset, offset + tensor.nbytes()}}};
    offset += tensor.nbytes();
  }
  std::string text;
  try {
    text = header.dump();
  } catch (const Json::exception& error) {
    throw Error(fmt::format("safetensors: expected names in UTF-8: {}", error.what()));
  }
  text.resize((text.size() + 7) / 8 * 8, ' ');  // aligns the data
  return text;
}

/// Reads one file; every fault becomes a UsageError that names it.
class Reader {
 public:
  explicit Reader(const fs::path& path)
      : path_(path), file_(open_to_read(path)), size_(fs::file_size(path)) {}

  NamedTensors load() {
    const Json header = read_header();
    std::vector<Entry> entries;
    for (const auto& [name, fields] : header.items()) {
      if (name != kMetadataKey) {
        entries.push_back(read_entry(name, fields));
      }
    }
    std::ranges::stable_sort(entries, {}, [](const Entry& e) { return std::pair(e.begin, e.end); });
    NamedTensors tensors;
    std::uint64_t position = 0;
    for (const Entry& entry : entries) {
      require(
          entry.begin == position,
          "tensor {} begins at byte {} of the data, expected {}: tensors overlap or leave a hole",
          entry.name, entry.begin, position);
      position = entry.end;
      tensors.emplace_back(entry.name, Tensor::empty(entry.shape, entry.dtype));
    }
    require(position == data_bytes_, "the data has {} bytes, the tensors take {}", data_bytes_,
            position);
    for (const auto& [name, tensor] : tensors) {
      read(tensor.bytes(), tensor.nbytes());
    }
    return tensors;
  }

 private:
  struct Entry {
    std::string name;
    DType dtype;
    Shape shape;
    std::uint64_t begin, end;
  };

  [[noreturn]] void fail(const std::string& fault) const { fail_to_read(path_, fault); }
  template <class... Args>
  void require(bool condition, fmt::format_string<Args...> fault, Args&&... args) const {
    if (!condition) {
      fail(fmt::format(fault, std::forward<Args>(args)...));
    }
  }

  void read(void* place, std::uint64_t bytes) {
    if (bytes > 0) {
      file_.read(static_cast<char*>(place), static_cast<std::streamsize>(bytes));
      require(file_.good(), "the file ended early");
    }
  }

  Json read_header() {
    require(size_ >= kLengthBytes, "not a safetensors file: it has {} bytes", size_);
    std::uint64_t length = 0;
    read(&length, kLengthBytes);
    const std::uint64_t limit = std::min(size_ - kLengthBytes, kLargestHeader);
    require(length <= limit, "not a safetensors file: header of {} bytes in a file of {}", length,
            size_);
    data_bytes_ = size_ - kLengthBytes - length;
    std::string text(length, '\0');
    read(text.data(), length);
    try {
      std::set<std::string> names;
      Json header = Json::parse(text, [&](int depth, Json::parse_event_t event, const Json& key) {
        require(depth <= kDeepestHeader, "the header is nested too deeply");
        const bool is_name = depth == 1 && event == Json::parse_event_t::key;
        if (is_name && !names.insert(key.get<std::string>()).second) {
          fail(fmt::format("tensor {} is listed twice", key.dump()));
        }
        return true;
      });
      require(header.is_object(), "the header is not a JSON object");
      return header;
    } catch (const Json::exception& error) {
      std::string fault = error.what();  // quotes the file
      std::ranges::replace_if(
          fault, [](unsigned char c) { return std::isprint(c) == 0; }, '?');
      fail(fmt::format("the header is not valid JSON: {}", fault));
    }
  }

  Entry read_entry(const std::string& name, const Json& fields) const {
    try {
      const auto dtype_name = fields.at("dtype").get<std::string>();
      const auto* dtype = std::ranges::find(kDTypes, dtype_name, name_of);
      require(dtype != kDTypes.end(),
              "tensor {} has dtype {}, known are F32, F64, U8, I64, F16, BF16", name, dtype_name);
      const std::vector<std::uint64_t> shape = unsigned_numbers(name, fields.at("shape"));
      const std::vector<std::uint64_t> offsets = unsigned_numbers(name, fields.at("data_offsets"));
      require(offsets.size() == 2 && offsets[0] <= offsets[1] && offsets[1] <= data_bytes_,
              "tensor {} has data_offsets {} in {} bytes of data", name,
              fields.at("data_offsets").dump(), data_bytes_);
      const Shape result = shape_of(name, shape);
      const auto numel = static_cast<std::uint64_t>(result.numel());
      require(numel * size_of(*dtype) == offsets[1] - offsets[0],
              "tensor {} of shape {} and dtype {} does not fill data_offsets {}", name,
              fields.at("shape").dump(), dtype_name, fields.at("data_offsets").dump());
      return {name, *dtype, result, offsets[0], offsets[1]};
    } catch (const Json::exception& error) {
      fail(fmt::format("tensor {}: {}", name, error.what()));
    }
  }

  /// An extent of 2^63 or more wraps to a negative one, which Shape refuses.
  Shape shape_of(const std::string& name, const std::vector<std::uint64_t>& extents) const try {
    return Shape(std::vector<std::int64_t>(extents.begin(), extents.end()));
  } catch (const Error& error) {
    fail(fmt::format("tensor {}: {}", name, error.what()));
  }

  std::vector<std::uint64_t> unsigned_numbers(const std::string& name, const Json& list) const {
    const bool valid = list.is_array() && std::ranges::all_of(list, [](const Json& number) {
                         return number.is_number_unsigned();
                       });
    require(valid, "tensor {}: expected a list of non-negative integers, got {}", name,
            list.dump());
    return list.get<std::vector<std::uint64_t>>();
  }

  fs::path path_;
  std::ifstream file_;
  std::uint64_t size_;
  std::uint64_t data_bytes_ = 0;
};

}  // namespace

Checksum save_safetensors(const std::filesystem::path& path, const NamedTensors& tensors) {
  const std::string header = make_header(tensors);
  const std::uint64_t length = header.size();
  AtomicFile file(path);
  ChecksumOfPieces pieces;
  const auto append = [&](std::span<const std::byte> bytes) {
    file.append(bytes);
    pieces.add(bytes);
  };
  append(std::as_bytes(std::span(&length, 1)));
  append(std::as_bytes(std::span(header)));
  for (const auto& [name, tensor] : tensors) {
    const Tensor on_host = tensor.to(kCpu);
    append({on_host.bytes(), on_host.nbytes()});
  }
  file.commit();
  return pieces.result();
}

NamedTensors load_safetensors(const std::filesystem::path& path) {
  return Reader(path).load();
}

}  // namespace brigade
