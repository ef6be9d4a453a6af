// evaluate_decisions - what acting on the scores is worth, by the declared utilities.
//
// Binary: act from a threshold on, with benefits and costs of the four outcomes; the threshold is declared,
// or the best one on validation rows. Multiclass: take the decision of largest expected utility under the
// row's probabilities, by a k x k matrix with a row for each true class.
#include "evaluate_internal.h"

#include <math.h>
#include <stdlib.h>

static DecisionUtility declared_utility(const Config *config)
{
    return (DecisionUtility){.benefit_tp = config_real(config, "quality.benefit_tp"),
                             .cost_fp = config_real(config, "quality.cost_fp"),
                             .cost_fn = config_real(config, "quality.cost_fn"),
                             .benefit_tn = config_real(config, "quality.benefit_tn")};
}

double evaluate_threshold(const Evaluation *e, const Scores *scores)
{
    double declared = config_real(e->night->config, "quality.threshold");
    DecisionUtility utility = declared_utility(e->night->config);
    return declared >= 0 ? declared
                         : stats_decision_threshold(scores->validation, e->validation.target,
                                                    e->validation.rows, &utility);
}

// NaN when memory is short: a utility that is not a number passes nothing.
static double class_utility(const Evaluation *e, const Scores *scores)
{
    const Config *config = e->night->config;
    size_t count = config_list_count(config, "quality.utilities");
    double *matrix = count == 0 ? NULL : calloc(count, sizeof *matrix), utility = (double)NAN;
    for (size_t i = 0; matrix != NULL && i < count; i++)
        matrix[i] = config_list_real(config, "quality.utilities", i);
    if (matrix != NULL || count == 0)
        utility =
            stats_class_utility(evaluate_predictions(e, scores->test, e->test.rows), e->test.target, matrix);
    free(matrix);
    return utility;
}

double evaluate_utility(const Evaluation *e, const Scores *scores)
{
    if (!e->binary)
        return class_utility(e, scores);
    DecisionUtility utility = declared_utility(e->night->config);
    return stats_decision_utility(scores->test, e->test.target, e->test.rows, evaluate_threshold(e, scores),
                                  &utility);
}

void evaluate_row_utilities(const Evaluation *e, const Scores *scores, double *ret_gain)
{
    const Config *config = e->night->config;
    const DecisionUtility utility = declared_utility(config);
    const double threshold = e->binary ? evaluate_threshold(e, scores) : 0;
    size_t count = config_list_count(config, "quality.utilities");
    double *matrix = count == 0 ? NULL : calloc(count, sizeof *matrix);
    for (size_t i = 0; matrix != NULL && i < count; i++)
        matrix[i] = config_list_real(config, "quality.utilities", i);
    for (size_t i = 0; i < e->test.rows; i++) {
        const double *score = scores->test + i * (size_t)e->width, *target = e->test.target + i;
        if (e->binary)
            ret_gain[i] = stats_decision_utility(score, target, 1, threshold, &utility);
        else
            ret_gain[i] = count > 0 && matrix == NULL
                              ? (double)NAN
                              : stats_class_utility(evaluate_predictions(e, score, 1), target, matrix);
    }
    free(matrix);
}

bool night_check_utilities(const Config *config, const Dataset *dataset, Error *error)
{
    size_t count = config_list_count(config, "quality.utilities"), classes = (size_t)dataset_classes(dataset);
    if (count == 0)
        return true;
    if (!text_equal(config_text(config, "task"), "multiclass"))
        return FAIL(error, ERROR_CONFIG, 0, "option 'quality.utilities' is for task 'multiclass', not '%s'",
                    config_text(config, "task"));
    if (count != classes * classes)
        return FAIL(error, ERROR_CONFIG, 0,
                    "option 'quality.utilities' has %zu numbers, %zu classes need %zu", count, classes,
                    classes * classes);
    return true;
}
