-- What nights tell: one table per row kind of the spool, the position of each spool, the homes, the migrations themselves.
--
-- Every telemetry row carries run and version and is keyed by (run, seq), the sequence in the run's spool. Columns are the
-- payload's keys; keys without a column are kept in `rest`. Numbers that may be NaN or infinite are double precision, where
-- PostgreSQL keeps them as values; ratios have no range check, so that a bad one is stored and seen instead of lost.
CREATE SCHEMA fedgate;

CREATE TABLE fedgate.schema_migration (
    number  integer PRIMARY KEY CHECK (number > 0),
    name    text NOT NULL UNIQUE,
    sha256  text NOT NULL CHECK (sha256 ~ '^[0-9a-f]{64}$'),
    applied timestamptz NOT NULL DEFAULT now()
);

-- One home serves a model; each shipper raises the epoch, and a transaction that read an older one is refused.
CREATE TABLE fedgate.home (
    model text PRIMARY KEY,
    id    text NOT NULL CHECK (id <> ''),
    epoch bigint NOT NULL CHECK (epoch > 0),
    made  timestamptz NOT NULL DEFAULT now(),
    seen  timestamptz NOT NULL DEFAULT now()
);

-- How far a run's spool is stored; chain is the CRC32C over the CRCs of its frames up to there.
CREATE TABLE fedgate.spool_position (
    run     uuid PRIMARY KEY,
    version text NOT NULL,
    seq     bigint NOT NULL CHECK (seq > 0),
    bytes   bigint NOT NULL CHECK (bytes > 0),
    chain   bigint NOT NULL CHECK (chain BETWEEN 0 AND 4294967295),
    moved   timestamptz NOT NULL DEFAULT now()
);

-- The run record; a run may write a first form at its start, its last row counts (view run_record).
CREATE TABLE fedgate.run (
    run               uuid NOT NULL,
    seq               bigint NOT NULL CHECK (seq > 0),
    version           text NOT NULL,
    model             text,
    slot              text,
    outcome           text,
    started           timestamptz,
    ended             timestamptz,
    deadline          timestamptz,
    hardware          text,
    cores             bigint,
    device            text,
    backend           text,
    driver            text,
    libraries         text,
    toolkit           text,
    program           text,
    shapes            jsonb,
    batch             bigint CHECK (batch >= 0),
    microbatch        bigint CHECK (microbatch >= 0),
    precision         text,
    seed              bigint,
    steps             bigint CHECK (steps >= 0),
    step_seconds      double precision,
    step_flop         double precision,
    throughput        double precision,   -- samples per second
    throughput_method text,
    peak_bytes        bigint CHECK (peak_bytes >= 0),
    seconds           jsonb,              -- by step of the night
    cost_per_sample   double precision,
    cost_unit         text,
    data_cutoff       text,
    rest              jsonb,
    PRIMARY KEY (run, seq)
);

CREATE TABLE fedgate.night_step (
    run     uuid NOT NULL,
    seq     bigint NOT NULL CHECK (seq > 0),
    version text NOT NULL,
    step    text NOT NULL,
    begun   timestamptz,
    seconds double precision,
    outcome text,
    rest    jsonb,
    PRIMARY KEY (run, seq)
);

-- A window of training steps; durations are sums over its steps.
CREATE TABLE fedgate.step_window (
    run                uuid NOT NULL,
    seq                bigint NOT NULL CHECK (seq > 0),
    version            text NOT NULL,
    first_step         bigint NOT NULL CHECK (first_step >= 0),
    steps              bigint NOT NULL CHECK (steps > 0),
    wall_ns            bigint CHECK (wall_ns >= 0),
    wait_ns            bigint CHECK (wait_ns >= 0),
    exposed_copy_ns    bigint CHECK (exposed_copy_ns >= 0),
    compute_ns         bigint CHECK (compute_ns >= 0),
    rest_ns            bigint,
    loss               double precision,
    samples_per_second double precision,
    live_bytes         bigint CHECK (live_bytes >= 0),
    rest               jsonb,
    PRIMARY KEY (run, seq)
);

CREATE TABLE fedgate.stage (
    run            uuid NOT NULL,
    seq            bigint NOT NULL CHECK (seq > 0),
    version        text NOT NULL,
    stage          text NOT NULL,
    items          bigint CHECK (items >= 0),
    bytes          bigint CHECK (bytes >= 0),
    busy_ns        bigint CHECK (busy_ns >= 0),
    blocked_in_ns  bigint CHECK (blocked_in_ns >= 0),
    blocked_out_ns bigint CHECK (blocked_out_ns >= 0),
    depth_p50      double precision,
    depth_p95      double precision,
    depth_max      double precision,
    threads        bigint CHECK (threads >= 0),
    rest           jsonb,
    PRIMARY KEY (run, seq)
);

CREATE TABLE fedgate.check_result (
    run         uuid NOT NULL,
    seq         bigint NOT NULL CHECK (seq > 0),
    version     text NOT NULL,
    name        text NOT NULL,
    required    boolean NOT NULL,
    outcome     text NOT NULL CHECK (outcome IN ('pass', 'fail', 'inconclusive', 'not_measured', 'not_applicable', 'error')),
    value       double precision,
    value_limit double precision,
    unit        text,
    n           double precision,
    reason      text,
    rest        jsonb,
    PRIMARY KEY (run, seq)
);

-- slice_column and slice_value are empty for all rows of the split.
CREATE TABLE fedgate.metric (
    run          uuid NOT NULL,
    seq          bigint NOT NULL CHECK (seq > 0),
    version      text NOT NULL,
    model        text NOT NULL,
    split        text,
    slice_column text,
    slice_value  text,
    metric       text NOT NULL,
    value        double precision,
    rows         bigint CHECK (rows >= 0),
    rest         jsonb,
    PRIMARY KEY (run, seq)
);

CREATE TABLE fedgate.prediction_bin (
    run       uuid NOT NULL,
    seq       bigint NOT NULL CHECK (seq > 0),
    version   text NOT NULL,
    model     text NOT NULL,
    bin       bigint NOT NULL CHECK (bin >= 0),
    low       double precision,
    high      double precision,
    rows      bigint NOT NULL CHECK (rows >= 0),
    positives bigint CHECK (positives >= 0),
    rest      jsonb,
    PRIMARY KEY (run, seq)
);

CREATE TABLE fedgate.input_column (
    run           uuid NOT NULL,
    seq           bigint NOT NULL CHECK (seq > 0),
    version       text NOT NULL,
    name          text NOT NULL,
    role          text,
    missing_ratio double precision,
    unseen_ratio  double precision,
    outside_ratio double precision,
    drift_psi     double precision,
    single_auc    double precision,
    constant      boolean,
    rest          jsonb,
    PRIMARY KEY (run, seq)
);

CREATE TABLE fedgate.memory_account (
    run           uuid NOT NULL,
    seq           bigint NOT NULL CHECK (seq > 0),
    version       text NOT NULL,
    account       text NOT NULL,
    kind          text,
    planned_bytes bigint,
    peak_bytes    bigint CHECK (peak_bytes >= 0),
    live_bytes    bigint CHECK (live_bytes >= 0),
    rest          jsonb,
    PRIMARY KEY (run, seq)
);

CREATE TABLE fedgate.verdict (
    run             uuid NOT NULL,
    seq             bigint NOT NULL CHECK (seq > 0),
    version         text NOT NULL,
    slot            text NOT NULL,
    outcome         text NOT NULL CHECK (outcome IN ('promoted', 'passed', 'refused', 'inconclusive', 'reverted', 'inconsistent',
                                                     'failed')),
    reason          text,
    decided_by      text,
    policy_digest   text,
    evidence_digest text,
    started         timestamptz,
    ended           timestamptz,
    deadline        timestamptz,
    rest            jsonb,
    PRIMARY KEY (run, seq)
);
