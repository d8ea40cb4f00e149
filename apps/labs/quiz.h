#pragma once

#include <iosfwd>
#include <string>
#include <vector>

/// The quiz of a lab: three multiple-choice questions about what the lab shows.
namespace brigade::labs {

/// The name ("lab 3", "exercise 3") of this program, and the quiz.txt of its lab. CMake writes the
/// source that defines them.
extern const char* const kName;
extern const char* const kQuiz;

struct Question {
  std::string text;
  std::vector<std::string> choices;  // answered by the letters a, b, c
  std::size_t right = 0;             // index of the right choice
  std::string reason;                // one sentence: why it is right
};

/// Reads the text of a quiz.txt. Each question is a line `? question`, three choices `- text` of
/// which the right one is written `+ text`, and a line `= reason`. Throws Error if there are not
/// exactly three such questions.
std::vector<Question> parse_quiz(const std::string& text);

/// Prints the questions, reads one letter per line from `in` and says whether it is right and why.
/// Asks again after anything but a letter. Returns the exit code: 0 if all answers are right, else
/// 3. Throws UsageError if `in` ends early.
int take_quiz(const std::vector<Question>& quiz, std::istream& in, std::ostream& out);

}  // namespace brigade::labs
