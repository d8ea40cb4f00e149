#pragma once

#include <string>
#include <vector>

#include "apps/plan/plan.h"

/// A prediction for people and for programs.
namespace brigade::apps {

/// What was asked, the table, and what follows from it.
std::string plan_text(const Profile& profile, const PlanQuestion& question,
                      const std::vector<PlanRow>& rows);

std::string plan_json(const Profile& profile, const PlanQuestion& question,
                      const std::vector<PlanRow>& rows);

/// The same as a page, with the efficiency as a curve over the ranks.
std::string plan_html(const Profile& profile, const PlanQuestion& question,
                      const std::vector<PlanRow>& rows);

}  // namespace brigade::apps
