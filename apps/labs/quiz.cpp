#include "apps/labs/quiz.h"

#include <algorithm>
#include <iostream>
#include <regex>
#include <sstream>

#include "core/error.h"

namespace brigade::labs {
namespace {

constexpr int kWrongAnswer = 3;  // exit code: a verification failed

char letter_of(std::size_t choice) {
  return static_cast<char>('a' + choice);
}

/// The index of the chosen answer. `number` counts the questions from 1.
std::size_t read_choice(std::istream& in, std::ostream& out, std::size_t number) {
  out << "your answer (a, b or c):\n";
  std::string line;
  while (std::getline(in, line)) {
    if (line == "a" || line == "b" || line == "c") {
      return static_cast<std::size_t>(line[0] - 'a');
    }
    out << "expected a, b or c, got '" << line << "'\n";
  }
  throw UsageError(fmt::format(
      "quiz: expected an answer to question {}, got the end of the input; answer with a, b or c",
      number));
}

}  // namespace

std::vector<Question> parse_quiz(const std::string& text) {
  std::vector<std::string> lines;
  std::string marks;  // the first character of each line
  std::istringstream stream(text);
  for (std::string line; std::getline(stream, line);) {
    if (!line.empty()) {
      marks += line[0];
      lines.push_back(line.substr(std::min<std::size_t>(2, line.size())));
    }
  }
  static const std::regex three_questions(R"((\?(\+--|-\+-|--\+)=){3})");
  BRIGADE_CHECK(std::regex_match(marks, three_questions),
                "quiz: expected three questions of the form ?+--= (apps/labs/quiz.h), got lines "
                "that begin with {}",
                marks);
  std::vector<Question> quiz;
  for (auto line = lines.begin(); line != lines.end(); line += 5) {
    const auto first = static_cast<std::size_t>(line - lines.begin());
    quiz.push_back({.text = line[0],
                    .choices = {line[1], line[2], line[3]},
                    .right = marks.find('+', first) - first - 1,
                    .reason = line[4]});
  }
  return quiz;
}

int take_quiz(const std::vector<Question>& quiz, std::istream& in, std::ostream& out) {
  std::size_t right = 0;
  for (std::size_t i = 0; i < quiz.size(); ++i) {
    const Question& question = quiz[i];
    out << "question " << i + 1 << ": " << question.text << '\n';
    for (std::size_t choice = 0; choice < question.choices.size(); ++choice) {
      out << "  " << letter_of(choice) << ") " << question.choices[choice] << '\n';
    }
    const bool is_right = read_choice(in, out, i + 1) == question.right;
    right += is_right ? 1 : 0;
    out << "answer " << i + 1 << ": "
        << (is_right ? "right" : fmt::format("wrong, expected {}", letter_of(question.right)))
        << ". " << question.reason << "\n\n";
  }
  out << right << " of " << quiz.size() << " right\n";
  return right == quiz.size() ? 0 : kWrongAnswer;
}

}  // namespace brigade::labs
