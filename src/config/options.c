// options - the option table: the one place where an option is named, typed, limited and explained.
//
// Adding an option is adding a row here; YAML, environment, --set, help, sample and manual follow. IDENTITY marks what
// changes the trained bits (it enters the exact version), POLICY what a judge compares with.
#include <fedgate/config.h>

#define ID OPTION_IDENTITY
#define POL OPTION_POLICY

const Option config_options[] = {
    // -- the model and its owner
    {"model", OPTION_TEXT, NULL, 0, 0, NULL, "", "name of the model: [a-z0-9][a-z0-9._-]*; prefix of every version", ID | OPTION_NEEDED},
    {"owner", OPTION_TEXT, "", 0, 0, NULL, "", "account that alone may roll back, hold and unhold; empty: the account that made the home", 0},
    {"machine.class", OPTION_TEXT, "", 0, 0, NULL, "", "label added to the machine class; empty: only what is detected", ID},

    // -- data
    {"data.train", OPTION_PATHS, "", 0, 0, NULL, "", "CSV files (.csv, .data, any name; .gz proved whole) with the rows to split", OPTION_NEEDED},
    {"data.test", OPTION_PATHS, "", 0, 0, NULL, "", "CSV files that are the test set when split.method is file", 0},
    {"data.directory", OPTION_PATH, "", 0, 0, NULL, "", "folder the files of data.train and data.test are in; empty: beside the configuration", 0},
    {"data.delimiter", OPTION_TEXT, ",", 0, 0, NULL, "", "one character between fields; 'tab' for a tab", ID},
    {"data.header", OPTION_BOOL, "true", 0, 0, NULL, "", "the first record names the columns", ID},
    {"data.columns", OPTION_LIST, "", 0, 0, NULL, "", "column names in file order, when there is no header", ID},
    {"data.trim", OPTION_BOOL, "false", 0, 0, NULL, "", "remove blanks and tabs round unquoted fields", ID},
    {"data.skip_lines", OPTION_INTEGER, "0", 0, 1000, NULL, "lines", "lines to leave out at the top of each training file", ID},
    {"data.test_skip_lines", OPTION_INTEGER, "0", 0, 1000, NULL, "lines", "lines to leave out at the top of each test file", ID},
    {"data.target", OPTION_TEXT, NULL, 0, 0, NULL, "", "column to predict", ID | OPTION_NEEDED},
    {"data.labels", OPTION_LIST, "", 0, 0, NULL, "", "TOKEN=CLASS for each label (classes 0, 1, ...); empty: the tokens are 0..k-1", ID},
    {"data.numeric", OPTION_LIST, "", 0, 0, NULL, "", "numeric columns", ID},
    {"data.categorical", OPTION_LIST, "", 0, 0, NULL, "", "categorical columns (text, leading zeros kept)", ID},
    {"data.forbidden", OPTION_LIST, "", 0, 0, NULL, "", "columns that must never be features (known only after the fact); present in the file, not used", ID},
    {"data.row_id", OPTION_TEXT, "", 0, 0, NULL, "", "column that identifies a row; empty: a stable hash of the record", ID},
    {"data.missing", OPTION_LIST, "", 0, 0, NULL, "", "COLUMN=TOKEN that means missing ('*' = every column, empty token = empty field); nothing is missing by default", ID},
    {"data.bad_rows", OPTION_INTEGER, "0", 0, 1000000, NULL, "rows", "malformed rows that may be left out, each counted and named", ID},
    {"data.cutoff", OPTION_TEXT, "", 0, 0, NULL, "", "rows whose data.cutoff_column is greater are left out and counted; empty: none", ID},
    {"data.cutoff_column", OPTION_TEXT, "", 0, 0, NULL, "", "column compared with data.cutoff (numbers as numbers, else as text)", ID},
    {"data.transform", OPTION_CHOICE, "standard", 0, 0, "standard|quantile-normal", "", "numeric inputs: zero mean and unit variance, or normal by quantiles of the training rows", ID},
    {"data.quantiles", OPTION_INTEGER, "1000", 10, 100000, NULL, "quantiles", "knots of the quantile-normal map", ID},
    {"data.rare", OPTION_INTEGER, "1", 1, 1000000, NULL, "rows", "a category seen in fewer training rows uses the unknown slot", ID},

    // -- split
    {"split.method", OPTION_CHOICE, "hash", 0, 0, "hash|file|modulo|time", "", "how test rows are chosen: stable hash of the row id, files of their own, row index mod n, or the last share of rows in time order", ID},
    {"split.test", OPTION_REAL, "0.2", 0.01, 0.9, NULL, "ratio", "share of the rows that are test (hash, time)", ID},
    {"split.validation", OPTION_REAL, "0.1", 0.01, 0.9, NULL, "ratio", "share of the remaining rows that are validation (early stop, threshold)", ID},
    {"split.modulo", OPTION_INTEGER, "5", 2, 1000, NULL, "rows", "n of index mod n", ID},
    {"split.remainder", OPTION_INTEGER, "4", 0, 999, NULL, "rows", "test rows have index mod n equal to this", ID},

    // -- task, model shape, training
    {"task", OPTION_CHOICE, "binary", 0, 0, "binary|multiclass|regression", "", "what the target is", ID},
    {"train.seed", OPTION_INTEGER, "1", 0, 9007199254740991.0, NULL, "", "seed of initial weights and row order", ID},
    {"train.hidden", OPTION_INTEGERS, "256,128", 1, 65536, NULL, "units", "width of each hidden layer", ID},
    {"train.embedding", OPTION_INTEGER, "0", 0, 1024, NULL, "units", "width of every embedding; 0: from the number of categories", ID},
    {"train.batch", OPTION_INTEGER, "256", 1, 1048576, NULL, "samples", "global batch: samples per optimizer step", ID},
    {"train.microbatch", OPTION_INTEGER, "0", 0, 1048576, NULL, "samples", "samples per forward pass; 0: the largest that fits and divides the batch", 0},
    {"train.epochs", OPTION_INTEGER, "20", 1, 100000, NULL, "epochs", "at most so many passes over the training rows", ID},
    {"train.max_steps", OPTION_INTEGER, "0", 0, 1000000000, NULL, "steps", "at most so many optimizer steps; 0: no limit", ID},
    {"train.patience", OPTION_INTEGER, "4", 1, 100000, NULL, "epochs", "early stop after so many epochs without a better validation loss; the best weights are kept", ID},
    {"train.learning_rate", OPTION_REAL, "0.001", 1e-9, 10, NULL, "", "peak learning rate of AdamW", ID},
    {"train.final_rate", OPTION_REAL, "0.05", 0, 1, NULL, "ratio", "learning rate at the end of the cosine, as a share of the peak", ID},
    {"train.warmup", OPTION_REAL, "0.05", 0, 0.9, NULL, "ratio", "share of the planned steps in which the rate rises", ID},
    {"train.weight_decay", OPTION_REAL, "0.01", 0, 10, NULL, "", "decoupled weight decay of matrices and embeddings", ID},
    {"train.beta1", OPTION_REAL, "0.9", 0, 0.999999, NULL, "", "AdamW first moment", ID},
    {"train.beta2", OPTION_REAL, "0.999", 0, 0.999999, NULL, "", "AdamW second moment", ID},
    {"train.epsilon", OPTION_REAL, "1e-8", 1e-12, 1, NULL, "", "AdamW epsilon", ID},
    {"train.clip", OPTION_REAL, "1", 0, 1e9, NULL, "", "limit of the global gradient norm; 0: none", ID},
    {"train.dropout", OPTION_REAL, "0", 0, 0.9, NULL, "ratio", "share of hidden units dropped in training", ID},
    {"train.precision", OPTION_CHOICE, "fp32", 0, 0, "fp32", "", "arithmetic of forward and backward passes", ID},
    {"train.checkpoint_every", OPTION_INTEGER, "200", 1, 1000000000, NULL, "steps", "steps between checkpoints that resume bit for bit", 0},
    {"train.time_limit", OPTION_DURATION, "0", 0, 1e9, NULL, "seconds", "stop training after this long (window then fails); 0: only the deadline", 0},

    // -- input pipeline
    {"input.workers", OPTION_INTEGER, "1", 1, 256, NULL, "threads", "persistent loader threads", 0},
    {"input.prefetch", OPTION_INTEGER, "4", 1, 1024, NULL, "batches", "batches prepared ahead, over all workers", 0},
    {"input.slots", OPTION_INTEGER, "3", 2, 64, NULL, "slots", "staging slots of the pinned ring", 0},
    {"input.augment_noise", OPTION_REAL, "0", 0, 10, NULL, "deviations", "normal noise added to numeric inputs of training rows, by row and epoch", ID},
    {"input.host_memory", OPTION_BYTES, "4GB", 1e6, 1e15, NULL, "bytes", "cap on host memory of the input pipeline", 0},
    {"input.open_files", OPTION_INTEGER, "256", 8, 1048576, NULL, "files", "cap on files open at once", 0},

    // -- device, memory budget
    {"device.backend", OPTION_CHOICE, "cpu", 0, 0, "cpu", "", "compute back end", ID},
    {"device.memory", OPTION_BYTES, "24GB", 1e6, 1e15, NULL, "bytes", "memory of the device that may be planned with", POL},
    {"device.threads", OPTION_INTEGER, "0", 0, 1024, NULL, "threads", "compute threads of the cpu back end (results do not depend on it); 0: by core count", 0},
    {"device.peak_flops", OPTION_REAL, "0", 0, 1e19, NULL, "FLOP/s", "declared dense peak of the precision used; 0: the upper bound of the device table", POL},
    {"device.bandwidth", OPTION_REAL, "0", 0, 1e16, NULL, "bytes/s", "declared memory bandwidth; 0: from the device table, on cpu it then does not bind", POL},
    {"memory.reserve", OPTION_REAL, "0.1", 0, 0.9, NULL, "ratio", "share of the device memory that stays free", POL},
    {"memory.state", OPTION_BYTES, "0", 0, 1e15, NULL, "bytes", "plan with this state (weights, gradients, optimizer, context) instead of the model's own; 0: computed", 0},
    {"memory.per_sample", OPTION_BYTES, "0", 0, 1e15, NULL, "bytes", "plan with these activation bytes per sample instead of the model's own; 0: computed", 0},
    {"memory.blocks", OPTION_INTEGER, "0", 0, 64, NULL, "blocks", "print the activations of a microbatch in so many equal blocks; 0: by layer", 0},
    {"memory.unexplained", OPTION_REAL, "0.01", 0, 0.5, NULL, "ratio", "share of the budget that may be unexplained", POL},
    {"plan.intensity_rows", OPTION_INTEGER, "0", 0, 1048576, NULL, "samples", "roofline example: rows of one layer; 0: the batch", 0},
    {"plan.intensity_in", OPTION_INTEGER, "0", 0, 1048576, NULL, "units", "roofline example: inputs of one layer; 0: the model's layers", 0},
    {"plan.intensity_out", OPTION_INTEGER, "0", 0, 1048576, NULL, "units", "roofline example: outputs of one layer", 0},
    {"plan.intensity_bytes", OPTION_INTEGER, "4", 1, 8, NULL, "bytes", "roofline example: bytes per element", 0},

    // -- window
    {"window.deadline", OPTION_TIME, "06:00", 0, 0, NULL, "", "local time at which the night must have ended", POL},
    {"window.zone", OPTION_ZONE, "", 0, 0, NULL, "", "time zone of the deadline, as in the tz database; empty: the system's", POL},
    {"window.length", OPTION_DURATION, "0", 0, 1e6, NULL, "seconds", "the night may also last at most so long after its start; 0: only the deadline", POL},
    {"window.margin", OPTION_REAL, "0.05", 0, 1, NULL, "ratio", "part of the remaining time a forecast must leave free", POL},

    // -- judges
    {"checks.required", OPTION_LIST, "overlap,fed,closure,plausible,memory,parity,determinism,window,quality,input,telemetry", 0, 0, NULL, "", "checks that must pass; overlap, parity, window, memory, plausible and quality cannot be left out", POL},
    {"overlap.floor", OPTION_REAL, "0.8", 0.5, 1, NULL, "ratio", "least share of copy time hidden behind compute", POL},
    {"overlap.steps", OPTION_REAL, "0.95", 0.5, 1, NULL, "ratio", "share of the steps that must reach the floor", POL},
    {"overlap.starved", OPTION_REAL, "0.05", 0, 0.5, NULL, "ratio", "most time without device work in gaps over max(5 us, 2 % of the median step)", POL},
    {"overlap.pageable", OPTION_REAL, "0.01", 0, 0.5, NULL, "ratio", "most bytes copied from pageable memory", POL},
    {"fed.wait", OPTION_REAL, "0.05", 0, 0.5, NULL, "ratio", "most batch wait as a share of step time", POL},
    {"closure.tolerance", OPTION_REAL, "0.01", 0, 0.05, NULL, "ratio", "difference between the sum of spans and the step's wall time (at least 2 us)", POL},
    {"closure.steps", OPTION_REAL, "0.99", 0.5, 1, NULL, "ratio", "share of the steps that must close", POL},
    {"quality.metric", OPTION_CHOICE, "", 0, 0, "|auc|logloss|accuracy|rmse", "", "metric that decides; empty: auc, logloss (multiclass) or rmse by task", POL},
    {"quality.margin", OPTION_REAL, "-1", -1, 1, NULL, "", "by how much the candidate must beat rule and statistical baseline: absolute for auc and accuracy, relative for loss and rmse; -1: 0.001 or 0.01", POL},
    {"quality.live_margin", OPTION_REAL, "-1", -1, 1, NULL, "", "by how much it may be worse than the live version; -1: 0.01 or 0.03", POL},
    {"quality.slices", OPTION_LIST, "", 0, 0, NULL, "", "categorical columns whose values are judged as slices", POL},
    {"quality.slice_rows", OPTION_INTEGER, "200", 10, 100000000, NULL, "rows", "smaller slices are reported, not judged", POL},
    {"quality.slice_margin", OPTION_REAL, "0.05", 0, 1, NULL, "", "by how much a slice may be worse than the live version (or the baseline when nothing is live)", POL},
    {"quality.benefit_tp", OPTION_REAL, "1", -1e9, 1e9, NULL, "utility", "utility of acting on a positive", POL},
    {"quality.cost_fp", OPTION_REAL, "1", -1e9, 1e9, NULL, "utility", "cost of acting on a negative", POL},
    {"quality.threshold", OPTION_REAL, "-1", -1, 1, NULL, "probability", "score from which is acted; -1: chosen on validation rows", POL},
    {"input.missing", OPTION_REAL, "0.5", 0, 1, NULL, "ratio", "most missing values in a column", POL},
    {"input.unseen", OPTION_REAL, "0.05", 0, 1, NULL, "ratio", "most rows of a column with a category not seen in training", POL},
    {"input.outside", OPTION_REAL, "0.02", 0, 1, NULL, "ratio", "most values of a column outside the training range, widened by half its width", POL},
    {"input.drift", OPTION_REAL, "0.25", 0, 10, NULL, "PSI", "most population stability index of a column against the live version's data", POL},
    {"input.leakage", OPTION_REAL, "0.98", 0.5, 1, NULL, "AUC", "a single column that predicts the target this well is leakage", POL},
    {"input.after_cutoff", OPTION_INTEGER, "0", 0, 1000000000, NULL, "rows", "rows after the cutoff that may be left out", POL},
    {"plausible.clock", OPTION_REAL, "0.01", 0, 0.5, NULL, "ratio", "most disagreement of host and device clock over the run", POL},
    {"determinism.steps", OPTION_INTEGER, "16", 1, 100000, NULL, "steps", "steps replayed from the start and from a middle checkpoint", POL},

    // -- baselines
    {"baseline.name", OPTION_CHOICE, "linear", 0, 0, "prior|rule|linear", "", "baseline that is live when there is no known-good version", POL},
    {"baseline.rule", OPTION_TEXT, "", 0, 0, NULL, "", "declared rule: 'column op value -> score; ... ; else -> score'", POL},
    {"baseline.ridge", OPTION_REAL, "1e-4", 0, 1e6, NULL, "", "L2 penalty of the linear baseline per row", POL},

    // -- telemetry and database
    {"database.url", OPTION_TEXT, "", 0, 0, NULL, "", "libpq connection string; empty: a private cluster in the home. Passwords belong into a file (passfile=...)", OPTION_SECRET},
    {"database.account", OPTION_TEXT, "postgres", 0, 0, NULL, "", "account the private cluster runs under when fedgate is started as root", 0},
    {"database.timeout", OPTION_DURATION, "20s", 0.1, 3600, NULL, "seconds", "how long to wait for the database before the night goes on without it", 0},
    {"telemetry.required", OPTION_BOOL, "true", 0, 0, NULL, "", "promotion needs every telemetry row of the run acknowledged", POL},
    {"telemetry.rows", OPTION_INTEGER, "100000", 100, 100000000, NULL, "rows", "most rows a run may spool; more are thinned and counted, never a gate metric", 0},
    {"telemetry.window", OPTION_INTEGER, "100", 1, 1000000, NULL, "steps", "steps summarised in one telemetry row", 0},
};

const size_t config_option_count = sizeof config_options / sizeof config_options[0];
