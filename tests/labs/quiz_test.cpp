// The quizzes of the labs, and the patches that make solutions from starters.
#include "apps/labs/quiz.h"

#include <gmock/gmock.h>

#include <sstream>

#include "core/error.h"
#include "tests/support/program_run.h"
#include "tests/support/temporary_directory.h"

namespace brigade::labs {
namespace {

using testing::AllOf;
using testing::EndsWith;
using testing::HasSubstr;

constexpr const char* kSources = BRIGADE_LAB_SOURCES;

/// Three questions whose right answers are a, b and c.
std::vector<Question> small_quiz() {
  return parse_quiz(
      "? A?\n+ yes\n- no\n- no\n= R1\n\n? B?\n- no\n+ yes\n- no\n= R2\n"
      "? C?\n- no\n- no\n+ yes\n= R3\n");
}

/// The exit code of small_quiz(), and what it prints.
std::pair<int, std::string> take(const std::string& typed) {
  std::istringstream in(typed);
  std::ostringstream out;
  const int code = take_quiz(small_quiz(), in, out);
  return {code, out.str()};
}

TEST(Quiz, EndsWellIfAllAnswersAreRight) {
  const auto [code, out] = take("a\nb\nc\n");
  EXPECT_EQ(code, 0);
  EXPECT_THAT(out, AllOf(HasSubstr("question 2: B?\n  a) no\n  b) yes\n  c) no\n"),
                         HasSubstr("answer 3: right. R3\n"), EndsWith("3 of 3 right\n")));
}

TEST(Quiz, NamesTheWrongAnswerAndTheReason) {
  const auto [code, out] = take("a\nc\nc\n");
  EXPECT_EQ(code, 3);
  EXPECT_THAT(out, AllOf(HasSubstr("answer 1: right."),
                         HasSubstr("answer 2: wrong, expected b. R2"), EndsWith("2 of 3 right\n")));
}

TEST(Quiz, AsksAgainAfterAnythingButALetter) {
  const auto [code, out] = take("yes\na\n\nb\nd\nc\n");
  EXPECT_EQ(code, 0);
  EXPECT_THAT(out, AllOf(HasSubstr("expected a, b or c, got 'yes'\n"),
                         HasSubstr("expected a, b or c, got ''\n"),
                         HasSubstr("expected a, b or c, got 'd'\n")));
}

TEST(Quiz, SaysWhichAnswerIsMissingAtTheEndOfInput) {
  try {
    take("a\n");
    FAIL() << "expected a UsageError";
  } catch (const UsageError& error) {
    EXPECT_STREQ(error.what(),
                 "quiz: expected an answer to question 2, got the end of the input; answer with a, "
                 "b or c");
  }
}

TEST(Quiz, RefusesATextWithoutThreeQuestionsOfThreeChoices) {
  const std::string question = "? A?\n+ yes\n- no\n- no\n= R\n";
  for (const std::string& bad :
       {std::string(), question + question, question + question + question + question,
        question + question + "? C?\n+ yes\n+ yes\n- no\n= R\n",
        question + question + "? C?\n+ yes\n- no\n- no\n"}) {
    try {
      parse_quiz(bad);
      FAIL() << "expected an Error for: " << bad;
    } catch (const Error& error) {
      EXPECT_THAT(error.what(), HasSubstr("quiz: expected three questions of the form ?+--="));
    }
  }
}

class QuizOf : public testing::TestWithParam<const char*> {
 protected:
  /// `lab --quiz` without mpirun, with these answers on stdin, such as "bac".
  test::Outcome run(const std::string& letters) const {
    std::string lines;
    for (const char letter : letters) {
      lines += fmt::format("{}\\n", letter);
    }
    return test::run_program(fmt::format("printf '{}' | {}/lab{}", lines, BRIGADE_LABS, GetParam()),
                             "--quiz", 0, dir_.path());
  }

  std::string right_answers() const {
    std::string letters;
    for (const Question& question :
         parse_quiz(test::read(fmt::format("{}/{}/quiz.txt", kSources, GetParam())))) {
      letters += static_cast<char>('a' + question.right);
    }
    return letters;
  }

  TemporaryDirectory dir_;
};

TEST_P(QuizOf, TakesItsOwnRightAnswers) {
  const test::Outcome outcome = run(right_answers());
  EXPECT_EQ(outcome.exit_code, 0) << outcome.err;
  EXPECT_THAT(outcome.out, EndsWith("3 of 3 right\n"));
}

TEST_P(QuizOf, NamesTheQuestionAnsweredWrong) {
  std::string letters = right_answers();
  letters[1] = letters[1] == 'a' ? 'b' : 'a';
  const test::Outcome outcome = run(letters);
  EXPECT_EQ(outcome.exit_code, 3) << outcome.err;
  EXPECT_THAT(outcome.out, HasSubstr("answer 2: wrong, expected "));
  EXPECT_THAT(outcome.out, EndsWith("2 of 3 right\n"));
}

TEST_P(QuizOf, EndsWithAnErrorIfAnswersAreMissing) {
  const test::Outcome outcome = run("");
  EXPECT_EQ(outcome.exit_code, 2);
  EXPECT_THAT(outcome.out, HasSubstr("your answer (a, b or c):"));
  EXPECT_THAT(outcome.err, HasSubstr("quiz: expected an answer to question 1"));
}

INSTANTIATE_TEST_SUITE_P(Labs, QuizOf,
                         testing::Values("1_no_sync", "2_naive", "3_hooks", "4_halves", "5_overlap",
                                         "6_accumulation", "7_ring"));

TEST(QuizFlag, MakesRankZeroAloneTakeTheQuiz) {
  const TemporaryDirectory dir;
  const test::Outcome outcome = test::run_program(fmt::format("{}/lab3_hooks", BRIGADE_LABS),
                                                  "--quiz </dev/null", 3, dir.path());
  EXPECT_EQ(test::count(outcome.out, "question 1:"), 1);
  EXPECT_EQ(test::count(outcome.err, "quiz: expected an answer to question 1"), 1);
}

TEST(QuizFlag, RefusesOtherFlagsInOneLine) {
  const TemporaryDirectory dir;
  for (const char* bad : {"--trace --quiz", "--quiz b,a,c"}) {
    const test::Outcome outcome =
        test::run_program(fmt::format("{}/lab3_hooks", BRIGADE_LABS), bad, 0, dir.path());
    EXPECT_EQ(outcome.exit_code, 2) << bad;
    EXPECT_EQ(outcome.out, "") << bad;
    EXPECT_EQ(outcome.err, "lab 3: expected --quiz and no other flag\n") << bad;
  }
}

TEST(SolutionPatch, ThatDoesNotApplyFailsTheBuildWithOneLine) {
  const TemporaryDirectory dir;
  const std::string sources = kSources;
  const std::string patch = sources + "/3_hooks/solution.patch";
  const std::string other_starter = sources + "/2_naive/exercise/uneven_batches.cpp";
  const test::Outcome outcome = test::run_program(
      sources + "/apply_solution.sh", fmt::format("{} {} lab3_solution.cpp", other_starter, patch),
      0, dir.path());
  EXPECT_EQ(outcome.exit_code, 1);
  EXPECT_EQ(outcome.out, "");
  EXPECT_THAT(outcome.err, HasSubstr(fmt::format("{} does not apply to {}", patch, other_starter)));
  EXPECT_THAT(outcome.err, HasSubstr("build --target lab3_exercise alone"));
  EXPECT_EQ(test::count(outcome.err, "\n"), 1);
  EXPECT_FALSE(std::filesystem::exists(dir / "lab3_solution.cpp"));
}

TEST(SolutionPatch, NamesThePackageIfTheProgramIsMissing) {
  const TemporaryDirectory dir;
  const test::Outcome outcome = test::run_program(
      fmt::format("PATH=/nowhere {}/apply_solution.sh", kSources), "a b c", 0, dir.path());
  EXPECT_EQ(outcome.exit_code, 1);
  EXPECT_EQ(outcome.err, "labs: needs the program patch; scripts/setup.sh installs it\n");
}

}  // namespace
}  // namespace brigade::labs
