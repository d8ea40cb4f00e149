#include "nn/data/tokenizer.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <fstream>
#include <nlohmann/json.hpp>

#include "tests/support/expect_error.h"
#include "tests/support/gpt2_vocabulary.h"
#include "tests/support/temporary_directory.h"

namespace brigade::data {
namespace {

using testing::ElementsAre;

std::string all_bytes() {
  std::string text;
  for (int byte = 0; byte < 256; ++byte) {
    text += static_cast<char>(byte);
  }
  return text;
}

std::string decoded(const Tokenizer& tokenizer, const std::vector<std::int32_t>& tokens) {
  std::string text;
  for (const std::int32_t token : tokens) {
    text += tokenizer.decode(token);
  }
  return text;
}

constexpr const char* kMerges = "#version: 0.2\nh e\nl l\nhe ll\nĠ w\n1 2\n";

void write(const TemporaryDirectory& dir, const nlohmann::json& vocabulary,
           const std::string& merges) {
  std::ofstream(dir / "vocab.json") << vocabulary.dump();
  std::ofstream(dir / "merges.txt") << merges;
}

TEST(ByteTokenizer, HasATokenForEveryByte) {
  const ByteTokenizer tokenizer;
  EXPECT_EQ(tokenizer.vocabulary(), 256);
  EXPECT_THAT(tokenizer.encode("Az\xff"), ElementsAre(65, 122, 255));
  EXPECT_EQ(decoded(tokenizer, tokenizer.encode(all_bytes())), all_bytes());
}

TEST(Bpe, JoinsPairsInTheOrderOfTheMerges) {
  const TemporaryDirectory dir;
  write(dir, small_vocabulary(), kMerges);
  const auto tokenizer = load_bpe(dir.path());
  EXPECT_EQ(tokenizer->vocabulary(), 261);
  EXPECT_THAT(tokenizer->encode("hello"), ElementsAre(258, 'o'));
  EXPECT_THAT(tokenizer->encode("lll"), ElementsAre(257, 'l'));
  EXPECT_EQ(tokenizer->decode(258), "hell");
  EXPECT_EQ(tokenizer->decode(259), " w");
}

TEST(Bpe, CutsTextIntoTheWordsOfGpt2First) {
  const TemporaryDirectory dir;
  write(dir, small_vocabulary(), kMerges);
  const auto tokenizer = load_bpe(dir.path());
  EXPECT_THAT(tokenizer->encode("hello world"), ElementsAre(258, 'o', 259, 'o', 'r', 'l', 'd'));
  EXPECT_THAT(tokenizer->encode("h1 2e"), ElementsAre('h', '1', ' ', '2', 'e')) << "three words";
  // Of several spaces the last belongs to the word: "  w" is " " and " w".
  EXPECT_THAT(tokenizer->encode("  w"), ElementsAre(' ', 259));
  // An apostrophe begins a word of its own: l'll is l and 'll.
  EXPECT_THAT(tokenizer->encode("l'll"), ElementsAre('l', '\'', 257));
}

TEST(Bpe, ReadsALongWordInLittleTime) {
  const TemporaryDirectory dir;
  write(dir, small_vocabulary(), kMerges);
  const std::vector<std::int32_t> tokens =
      load_bpe(dir.path())->encode(std::string(1'000'000, 'l'));
  EXPECT_EQ(tokens, std::vector<std::int32_t>(500'000, 257));
}

TEST(Bpe, GivesBackAnyBytes) {
  const TemporaryDirectory dir;
  write(dir, small_vocabulary(), kMerges);
  const auto tokenizer = load_bpe(dir.path());
  for (const std::string& text :
       {all_bytes(), std::string("na\xc3\xafve \xe2\x82\xac 12\n\n  hell"), std::string(),
        std::string("\xff\xfe hello \xc3")}) {
    EXPECT_EQ(decoded(*tokenizer, tokenizer->encode(text)), text);
  }
}

TEST(Bpe, RefusesFilesThatDoNotFit) {
  const TemporaryDirectory dir;
  EXPECT_ERROR_WITH(load_bpe(dir.path()), "vocab.json: No such file");
  write(dir, nlohmann::json::array(), kMerges);
  EXPECT_ERROR_WITH(load_bpe(dir.path()), "vocab.json: expected a JSON object");
  std::ofstream(dir / "vocab.json")
      << R"({"a": )" << std::string(200'000, '[') << std::string(200'000, ']') << "}";
  EXPECT_ERROR_WITH(load_bpe(dir.path()), "expected a JSON object, got one nested too deeply");
  nlohmann::json twice = small_vocabulary();
  twice["he"] = 257;
  write(dir, twice, kMerges);
  EXPECT_ERROR_WITH(load_bpe(dir.path()), "expected the numbers 0 to 260, each once, got 257");
  write(dir, small_vocabulary(), "h e\nx y\n");
  EXPECT_ERROR_WITH(load_bpe(dir.path()), "'x y' joins what vocab.json does not have");
  write(dir, small_vocabulary(), "he\n");
  EXPECT_ERROR_WITH(load_bpe(dir.path()), "expected two tokens in a line, got 'he'");
  write(dir, {{"a", 0}}, "");
  EXPECT_ERROR_WITH(load_bpe(dir.path()), "expected a token for each byte");
}

}  // namespace
}  // namespace brigade::data
