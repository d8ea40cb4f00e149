#include "core/io/checkpoint_store.h"

#include <xxhash.h>

#include <algorithm>
#include <cerrno>
#include <charconv>
#include <cstring>
#include <fstream>
#include <functional>
#include <nlohmann/json.hpp>
#include <optional>

#include "core/error.h"
#include "core/io/atomic_file.h"
#include "core/io/json_file.h"
#include "core/io/read_file.h"

namespace brigade {
namespace {

using Json = nlohmann::ordered_json;
namespace fs = std::filesystem;

constexpr const char* kFormat = "brigade checkpoint 2";
constexpr const char* kInfo = "checkpoint.json";
constexpr std::string_view kPrefix = "step-";
constexpr const char* kUnfinished = ".tmp";
constexpr const char* kChanged = "its bytes have changed since it was written (wrong checksum)";
constexpr int kDeepest = 3;  // the names in a bucket

Checksum checksum_of(const fs::path& path) {
  constexpr std::size_t kBlock = std::size_t{1} << 20U;
  ChecksumOfPieces pieces;
  std::ifstream file = open_to_read(path);
  std::vector<char> block(kBlock);
  while (file) {
    file.read(block.data(), static_cast<std::streamsize>(block.size()));
    pieces.add(std::as_bytes(std::span(block)).first(static_cast<std::size_t>(file.gcount())));
  }
  if (!file.eof()) {
    fail_to_read(path, std::strerror(errno));
  }
  return pieces.result();
}

std::string name_of(std::int64_t step) {
  return fmt::format("{}{:09}", kPrefix, step);  // so that names sort as steps do
}

/// The step in "step-000000500"; nothing for any other name, such as "step-500".
std::optional<std::int64_t> step_in(const std::string& name) {
  std::int64_t step = -1;
  if (name.starts_with(kPrefix)) {
    std::from_chars(name.data() + kPrefix.size(), name.data() + name.size(), step);
  }
  return step >= 0 && name == name_of(step) ? std::optional(step) : std::nullopt;
}

/// A name that cannot lead out of the checkpoint's directory.
bool is_plain_name(const std::string& name) {
  return !name.empty() && name.front() != '.' && name.find('/') == std::string::npos;
}

/// JSON also has -1, 1.5 and 1e300, which a conversion would make other numbers of.
template <class Int>
Int whole_number(const Json& value, Int least = 0) {
  if (!value.is_number_unsigned() || !std::in_range<Int>(value.get<std::uint64_t>()) ||
      value.get<Int>() < least) {
    throw UsageError(fmt::format("expected a whole number from {}, got {}", least, value.dump()));
  }
  return value.get<Int>();
}

void require(bool succeeded, const char* what, const fs::path& path, const std::error_code& why) {
  if (!succeeded) {
    throw Error(fmt::format("cannot {} {}: {}", what, path.string(), why.message()));
  }
}

}  // namespace

std::string CheckpointInfo::to_json() const {
  Json json{
      {"format", kFormat}, {"step", step},     {"batches", batches}, {"ranks", ranks},
      {"run", run},        {"layout", layout}, {"buckets", buckets}, {"files", Json::object()}};
  for (const auto& [name, file] : files) {
    json["files"][name] = {{"bytes", file.bytes}, {"xxh3", file.xxh3}};
  }
  const std::string rest = json.dump();
  json["xxh3"] = XXH3_64bits(rest.data(), rest.size());
  return json.dump(2) + "\n";
}

CheckpointInfo CheckpointInfo::parse(const std::string& text, const std::string& subject) {
  try {
    const Json json = Json::parse(text, no_deeper_than(kDeepest));
    if (json.at("format") != kFormat) {
      throw UsageError(
          fmt::format("expected format '{}', got {}", kFormat, json.at("format").dump()));
    }
    CheckpointInfo info;
    info.step = whole_number<std::int64_t>(json.at("step"));
    info.batches = whole_number<std::int64_t>(json.at("batches"));
    info.ranks = whole_number(json.at("ranks"), 1);
    json.at("run").get_to(info.run);
    json.at("layout").get_to(info.layout);
    json.at("buckets").get_to(info.buckets);
    for (const auto& [name, fields] : json.at("files").items()) {
      if (!is_plain_name(name)) {
        throw UsageError(fmt::format("unexpected file {}", Json(name).dump()));
      }
      info.files[name] = {.bytes = whole_number<std::uint64_t>(fields.at("bytes")),
                          .xxh3 = whole_number<std::uint64_t>(fields.at("xxh3"))};
    }
    return info;
  } catch (const std::exception& error) {
    throw UsageError(fmt::format("{}: {}", subject, error.what()));
  }
}

std::vector<std::int64_t> CheckpointStore::steps() const {
  std::vector<std::int64_t> steps;
  std::error_code absent;
  for (const fs::directory_entry& entry : fs::directory_iterator(directory_, absent)) {
    if (const auto step = step_in(entry.path().filename().string())) {
      steps.push_back(*step);
    }
  }
  std::ranges::sort(steps, std::greater());
  return steps;
}

fs::path CheckpointStore::path_of(std::int64_t step) const {
  return directory_ / name_of(step);
}

fs::path CheckpointStore::temporary(std::int64_t step) const {
  return path_of(step).string() + kUnfinished;
}

CheckpointInfo CheckpointStore::check(std::int64_t step) const {
  const fs::path path = path_of(step);
  const std::string text = read_text(path / kInfo);
  CheckpointInfo info =
      CheckpointInfo::parse(text, fmt::format("cannot read {}", (path / kInfo).string()));
  if (info.step != step) {
    fail_to_read(path / kInfo, fmt::format("it is the checkpoint of step {}", info.step));
  }
  if (info.to_json() != text) {  // a number that has changed gives another checksum
    fail_to_read(path / kInfo, kChanged);
  }
  for (const auto& [name, expected] : info.files) {
    const Checksum found = checksum_of(path / name);
    if (found.bytes != expected.bytes) {
      fail_to_read(path / name,
                   fmt::format("expected {} bytes, got {}", expected.bytes, found.bytes));
    }
    if (found.xxh3 != expected.xxh3) {
      fail_to_read(path / name, kChanged);
    }
  }
  return info;
}

NamedTensors CheckpointStore::read(std::int64_t step, const std::string& file) const {
  return load_safetensors(path_of(step) / file);
}

Checksum CheckpointStore::write(std::int64_t step, const std::string& file,
                                const NamedTensors& tensors) const {
  std::error_code error;
  fs::create_directories(temporary(step), error);
  require(!error, "make", temporary(step), error);
  return save_safetensors(temporary(step) / file, tensors);
}

bool CheckpointStore::written(std::int64_t step, const std::string& file) const {
  std::error_code absent;
  return fs::exists(temporary(step) / file, absent);
}

void CheckpointStore::publish(CheckpointInfo info, const std::vector<std::string>& files,
                              std::size_t keep) const {
  const fs::path unfinished = temporary(info.step);
  for (const std::string& file : files) {
    if (!info.files.contains(file)) {
      info.files[file] = checksum_of(unfinished / file);
    }
  }
  write_file_atomically(unfinished / kInfo, info.to_json());  // fsyncs the directory as well
  for (const std::int64_t step : steps()) {
    if (step >= info.step) {
      remove(step);
    }
  }
  std::error_code error;
  fs::rename(unfinished, path_of(info.step), error);
  require(!error, "rename", unfinished, error);
  sync_directory(directory_);
  const std::vector<std::int64_t> all = steps();
  for (std::size_t i = keep; keep > 0 && i < all.size(); ++i) {
    remove(all[i]);
  }
}

void CheckpointStore::discard(std::int64_t step) const {
  std::error_code absent;
  fs::remove_all(temporary(step), absent);
}

/// Loses its name first: a checkpoint that is half removed must not look like one.
void CheckpointStore::remove(std::int64_t step) const {
  const fs::path going = path_of(step).string() + ".old" + kUnfinished;
  std::error_code absent;
  fs::remove_all(going, absent);
  fs::rename(path_of(step), going, absent);
  fs::remove_all(going, absent);
}

void CheckpointStore::remove_unfinished() const {
  std::error_code ignored;
  for (const fs::directory_entry& entry : fs::directory_iterator(directory_, ignored)) {
    const std::string name = entry.path().filename().string();
    if (name.starts_with(kPrefix) && name.ends_with(kUnfinished)) {
      fs::remove_all(entry.path(), ignored);
    }
  }
}

}  // namespace brigade
