#define PCRE2_CODE_UNIT_WIDTH 8
#include <pcre2.h>

#include <fstream>
#include <functional>
#include <map>
#include <queue>
#include <string>
#include <tuple>
#include <unordered_map>
#include <utility>

#include "core/error.h"
#include "core/io/json_file.h"
#include "core/io/read_file.h"
#include "nn/data/tokenizer.h"

// Text is cut into words first: no token crosses a border of these. A word begins as its bytes;
// then, of all pairs of neighbours in merges.txt, the one that comes first there is joined, again
// and again.
namespace brigade::data {
namespace {

namespace fs = std::filesystem;

/// GPT-2's words: contractions, letters, digits, other signs, with the space before each; spaces.
constexpr const char* kWords =
    R"('s|'t|'re|'ve|'m|'ll|'d| ?\p{L}+| ?\p{N}+| ?[^\s\p{L}\p{N}]+|\s+(?!\S)|\s+)";

std::string utf8_of(unsigned code) {  // below 0x800
  if (code < 0x80U) {
    return {static_cast<char>(code)};
  }
  return {static_cast<char>(0xc0U | code >> 6U), static_cast<char>(0x80U | (code & 0x3fU))};
}

/// How the files write each byte: printable ones of Latin-1 as themselves, the others as the code
/// points from 256 on.
std::map<std::string, char> bytes_of_letters() {
  std::map<std::string, char> bytes;
  unsigned next = 256;
  for (unsigned byte = 0; byte < 256; ++byte) {
    const bool printable = (byte > 0x20 && byte < 0x7f) || (byte > 0xa0 && byte != 0xad);
    bytes[utf8_of(printable ? byte : next++)] = static_cast<char>(byte);
  }
  return bytes;
}

class Bpe final : public Tokenizer {
 public:
  explicit Bpe(const fs::path& directory) {
    read_vocabulary(directory / "vocab.json");
    read_merges(directory / "merges.txt");
    int error = 0;
    PCRE2_SIZE place = 0;
    words_.reset(pcre2_compile(reinterpret_cast<PCRE2_SPTR>(kWords), PCRE2_ZERO_TERMINATED,
                               PCRE2_UTF | PCRE2_UCP | PCRE2_MATCH_INVALID_UTF, &error, &place,
                               nullptr));
    BRIGADE_CHECK(words_ != nullptr, "tokenizer: PCRE2 refuses the pattern, error {}", error);
    pcre2_jit_compile(words_.get(), PCRE2_JIT_COMPLETE);  // faster, where it can
  }

  std::int64_t vocabulary() const override { return std::ssize(texts_); }
  std::string decode(std::int64_t token) const override {
    return texts_.at(static_cast<std::size_t>(token));
  }

  std::vector<std::int32_t> encode(std::string_view text) const override {
    const std::unique_ptr<pcre2_match_data, decltype(&pcre2_match_data_free)> match(
        pcre2_match_data_create(1, nullptr), pcre2_match_data_free);
    std::unordered_map<std::string_view, std::vector<std::int32_t>> known;  // words repeat
    std::vector<std::int32_t> tokens;
    const auto append = [&](std::string_view word) {
      const auto [entry, is_new] = known.try_emplace(word);
      if (is_new) {
        entry->second = encode_word(word);
      }
      tokens.insert(tokens.end(), entry->second.begin(), entry->second.end());
    };
    std::size_t done = 0;
    while (pcre2_match(words_.get(), reinterpret_cast<PCRE2_SPTR>(text.data()), text.size(), done,
                       0, match.get(), nullptr) > 0) {
      const PCRE2_SIZE* range = pcre2_get_ovector_pointer(match.get());
      for (; done < range[0]; ++done) {  // bytes that are no UTF-8
        append(text.substr(done, 1));
      }
      append(text.substr(done, range[1] - done));
      done = range[1];
    }
    for (; done < text.size(); ++done) {
      append(text.substr(done, 1));
    }
    return tokens;
  }

 private:
  struct Merge {
    std::int32_t rank, token;
  };

  /// The bytes that a token of the files stands for.
  std::string bytes_of(const std::string& letters, const fs::path& path) const {
    std::string bytes;
    for (std::size_t at = 0; at < letters.size();) {
      const std::size_t length = static_cast<unsigned char>(letters[at]) < 0x80 ? 1 : 2;
      const auto found = letters_.find(letters.substr(at, length));
      if (found == letters_.end()) {
        fail_to_read(path, fmt::format("expected tokens in GPT-2's letters, got '{}'", letters));
      }
      bytes += found->second;
      at += length;
    }
    return bytes;
  }

  void read_vocabulary(const fs::path& path) {
    const nlohmann::json json = read_json_object(path);
    texts_.resize(json.size());
    std::vector<bool> taken(json.size());
    for (const auto& [letters, number] : json.items()) {
      if (!number.is_number_unsigned() || number.get<std::uint64_t>() >= texts_.size() ||
          taken[number.get<std::size_t>()]) {
        fail_to_read(path, fmt::format("expected the numbers 0 to {}, each once, got {} for '{}'",
                                       texts_.size() - 1, number.dump(), letters));
      }
      const auto token = number.get<std::size_t>();
      taken[token] = true;
      texts_[token] = bytes_of(letters, path);
      tokens_[texts_[token]] = static_cast<std::int32_t>(token);
    }
    for (const auto& [letter, byte] : letters_) {
      if (!tokens_.contains(std::string(1, byte))) {
        fail_to_read(path,
                     fmt::format("expected a token for each byte, got none for '{}'", letter));
      }
    }
  }

  void read_merges(const fs::path& path) {
    std::ifstream file = open_to_read(path);
    for (std::string line; std::getline(file, line);) {
      if (line.starts_with("#version") || line.empty()) {
        continue;
      }
      const std::size_t space = line.find(' ');
      if (space == std::string::npos) {
        fail_to_read(path, fmt::format("expected two tokens in a line, got '{}'", line));
      }
      const std::string left = bytes_of(line.substr(0, space), path);
      const std::string right = bytes_of(line.substr(space + 1), path);
      if (!tokens_.contains(left) || !tokens_.contains(right) || !tokens_.contains(left + right)) {
        fail_to_read(path, fmt::format("'{}' joins what vocab.json does not have", line));
      }
      const auto rank = static_cast<std::int32_t>(merges_.size());
      merges_.try_emplace({tokens_.at(left), tokens_.at(right)},
                          Merge{rank, tokens_.at(left + right)});
    }
  }

  /// The tokens of a word are a linked list: to join two takes one step, wherever they are. Pairs
  /// wait in the order of the merges, then of their places; one whose tokens have changed is stale.
  std::vector<std::int32_t> encode_word(std::string_view word) const {
    struct Pair {
      std::int32_t rank, joined, left, right;
      std::size_t place;
      bool operator>(const Pair& o) const {
        return std::tie(rank, place) > std::tie(o.rank, o.place);
      }
    };
    constexpr std::int32_t kGone = -1;
    std::vector<std::int32_t> tokens;
    std::vector<std::size_t> next, before;
    for (std::size_t i = 0; i < word.size(); ++i) {
      tokens.push_back(tokens_.at(std::string(1, word[i])));
      next.push_back(i + 1);
      before.push_back(i - 1);  // of the first: larger than any place
    }
    std::priority_queue<Pair, std::vector<Pair>, std::greater<>> pairs;
    const auto add = [&](std::size_t place) {
      if (place < tokens.size() && next[place] < tokens.size()) {
        const std::pair<std::int32_t, std::int32_t> two{tokens[place], tokens[next[place]]};
        if (const auto found = merges_.find(two); found != merges_.end()) {
          pairs.push({found->second.rank, found->second.token, two.first, two.second, place});
        }
      }
    };
    for (std::size_t i = 0; i < tokens.size(); ++i) {
      add(i);
    }
    while (!pairs.empty()) {
      const Pair pair = pairs.top();
      pairs.pop();
      const std::size_t right = tokens[pair.place] == pair.left ? next[pair.place] : tokens.size();
      if (right == tokens.size() || tokens[right] != pair.right) {
        continue;
      }
      tokens[pair.place] = pair.joined;
      tokens[right] = kGone;
      next[pair.place] = next[right];
      if (next[right] < tokens.size()) {
        before[next[right]] = pair.place;
      }
      add(before[pair.place]);
      add(pair.place);
    }
    std::erase(tokens, kGone);
    return tokens;
  }

  struct FreePattern {
    void operator()(pcre2_code* code) const { pcre2_code_free(code); }
  };
  std::map<std::string, char> letters_ = bytes_of_letters();
  std::vector<std::string> texts_;  // of each token
  std::unordered_map<std::string, std::int32_t> tokens_;
  std::map<std::pair<std::int32_t, std::int32_t>, Merge> merges_;
  std::unique_ptr<pcre2_code, FreePattern> words_;
};

}  // namespace

std::unique_ptr<Tokenizer> load_bpe(const fs::path& directory) {
  return std::make_unique<Bpe>(directory);
}

}  // namespace brigade::data
