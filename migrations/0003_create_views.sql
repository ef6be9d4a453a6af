-- Views for people. Runs are UUIDv7, so their order is the order of nights; within a run the higher seq is the later word.

CREATE VIEW fedgate.run_record AS
    SELECT DISTINCT ON (run) * FROM fedgate.run ORDER BY run, seq DESC;
COMMENT ON VIEW fedgate.run_record IS 'the complete record of each run';

-- The model is the version without its digest.
CREATE VIEW fedgate.night AS
    SELECT run, coalesce(v.version, r.version) AS version,
           regexp_replace(coalesce(v.version, r.version), '-[0-9a-f]{16}$', '') AS model,
           coalesce(v.slot, r.slot) AS slot, v.outcome, v.decided_by, v.reason,
           coalesce(v.started, r.started) AS started, coalesce(v.ended, r.ended) AS ended, coalesce(v.deadline, r.deadline) AS deadline
    FROM fedgate.run_record r
    FULL JOIN (SELECT DISTINCT ON (run) * FROM fedgate.verdict ORDER BY run, seq DESC) v USING (run);
COMMENT ON VIEW fedgate.night IS 'one row per run: slot, times, how it ended; outcome is null while it has no verdict';

CREATE VIEW fedgate.latest_verdict AS
    SELECT DISTINCT ON (n.model) n.model, n.slot, n.outcome, n.decided_by, n.reason, n.version, n.run, n.started, n.ended, n.deadline,
           v.policy_digest, v.evidence_digest
    FROM fedgate.night n
    JOIN LATERAL (SELECT * FROM fedgate.verdict WHERE verdict.run = n.run ORDER BY seq DESC LIMIT 1) v ON true
    ORDER BY n.model, n.run DESC;
COMMENT ON VIEW fedgate.latest_verdict IS 'the newest verdict of each model';

CREATE VIEW fedgate.night_steps AS
    SELECT n.slot, n.model, s.run, s.version, row_number() OVER (PARTITION BY s.run ORDER BY s.seq) AS number, s.step, s.begun,
           s.seconds, s.seconds / nullif(sum(s.seconds) OVER (PARTITION BY s.run), 0) AS share, s.outcome
    FROM fedgate.night_step s LEFT JOIN fedgate.night n USING (run)
    ORDER BY s.run, s.seq;
COMMENT ON VIEW fedgate.night_steps IS 'the steps of each night in order, with their seconds';

CREATE VIEW fedgate.checks_by_night AS
    SELECT n.slot, n.model, c.run, c.version, c.name, c.required, c.outcome, c.value, c.value_limit, c.unit, c.n, c.reason
    FROM (SELECT DISTINCT ON (run, name) * FROM fedgate.check_result ORDER BY run, name, seq DESC) c
    LEFT JOIN fedgate.night n USING (run)
    ORDER BY c.run, c.seq;
COMMENT ON VIEW fedgate.checks_by_night IS 'each check of each night: outcome, value against limit, why';

CREATE VIEW fedgate.stage_timings_by_night AS
    SELECT n.slot, n.model, s.run, s.version, s.stage, s.items, s.bytes, s.busy_ns / 1e9 AS busy_seconds,
           s.blocked_in_ns / 1e9 AS blocked_in_seconds, s.blocked_out_ns / 1e9 AS blocked_out_seconds,
           s.busy_ns::double precision / nullif(s.busy_ns + s.blocked_in_ns + s.blocked_out_ns, 0) AS busy_ratio,
           s.items / nullif(s.busy_ns / 1e9, 0) AS items_per_busy_second, s.depth_p50, s.depth_p95, s.threads
    FROM (SELECT DISTINCT ON (run, stage) * FROM fedgate.stage ORDER BY run, stage, seq DESC) s
    LEFT JOIN fedgate.night n USING (run)
    ORDER BY s.run, s.seq;
COMMENT ON VIEW fedgate.stage_timings_by_night IS 'where the input pipeline spent each night: busy, waiting for input, waiting for room';

CREATE VIEW fedgate.memory_ledger AS
    SELECT n.slot, n.model, m.run, m.version, m.kind, m.account, m.planned_bytes, m.peak_bytes,
           m.peak_bytes - m.planned_bytes AS over_plan_bytes, m.peak_bytes::double precision / nullif(m.planned_bytes, 0) AS peak_ratio
    FROM (SELECT DISTINCT ON (run, kind, account) * FROM fedgate.memory_account ORDER BY run, kind, account, seq DESC) m
    LEFT JOIN fedgate.night n USING (run)
    ORDER BY m.run, m.kind, m.planned_bytes DESC NULLS LAST, m.account;
COMMENT ON VIEW fedgate.memory_ledger IS 'planned and measured peak by account';

-- What is live, as the copied pointer records say: the last record of each home.
CREATE VIEW fedgate.live_version AS
    SELECT DISTINCT ON (home_id) home_id, to_version AS version, to_kind AS kind, decided AS since, seq, kind AS move, actor, reason
    FROM fedgate.decision ORDER BY home_id, seq DESC;
COMMENT ON VIEW fedgate.live_version IS 'what each home serves, after the copied pointer records';

-- One row per version. Figures of a version that was run more than once are those of its newest run; max() keeps NaN,
-- since PostgreSQL sorts it above every number. Outcomes are filled once they mature and are joined by version.
CREATE VIEW fedgate.version_life AS
    WITH newest AS (
        SELECT DISTINCT ON (version) version, run, model, slot, outcome, decided_by, reason, started, ended
        FROM fedgate.night ORDER BY version, run DESC
    ), known AS (
        SELECT version FROM newest UNION SELECT to_version FROM fedgate.decision WHERE to_version <> ''
    )
    SELECT k.version, coalesce(n.model, regexp_replace(k.version, '-[0-9a-f]{16}$', '')) AS model, n.run, n.slot,
           -- run and service health
           life.runs, life.promotions, EXISTS (SELECT 1 FROM fedgate.live_version l WHERE l.version = k.version) AS live,
           n.outcome, n.decided_by, n.reason, checks.failed AS checks_not_passed,
           extract(epoch FROM n.ended - n.started)::double precision AS night_seconds, r.throughput, r.peak_bytes, r.data_cutoff,
           steps.wait_ratio, steps.exposed_copy_ratio, steps.last_loss,
           -- input quality
           input.columns AS input_columns, input.missing_ratio AS worst_missing_ratio, input.unseen_ratio AS worst_unseen_ratio,
           input.outside_ratio AS worst_outside_ratio, input.drift_psi AS worst_drift_psi, input.drifted AS most_drifted_column,
           -- prediction distribution
           predictions.rows AS predictions, predictions.mean AS prediction_mean, predictions.positive_ratio,
           -- slices
           metrics.figures AS test_metrics, slices.count AS slices, worst.slice AS worst_slice, worst.metric AS worst_slice_metric,
           worst.value AS worst_slice_value,
           -- matured outcomes
           NULL::bigint AS outcome_rows, NULL::text AS outcome_metric, NULL::double precision AS outcome_value,
           -- cost
           r.cost_per_sample, r.cost_unit
    FROM known k
    LEFT JOIN newest n USING (version)
    LEFT JOIN fedgate.run_record r USING (run)
    LEFT JOIN LATERAL (
        SELECT count(*) AS runs, (SELECT count(*) FROM fedgate.decision d WHERE d.to_version = k.version AND d.kind = 'promote') AS promotions
        FROM fedgate.night x WHERE x.version = k.version) life ON true
    LEFT JOIN LATERAL (
        SELECT string_agg(name, ' ' ORDER BY name) AS failed FROM fedgate.checks_by_night c
        WHERE c.run = n.run AND c.required AND c.outcome NOT IN ('pass', 'not_applicable')) checks ON true
    LEFT JOIN LATERAL (
        SELECT sum(wait_ns)::double precision / nullif(sum(wall_ns), 0) AS wait_ratio,
               sum(exposed_copy_ns)::double precision / nullif(sum(wall_ns), 0) AS exposed_copy_ratio,
               (array_agg(loss ORDER BY first_step DESC, seq DESC))[1] AS last_loss
        FROM fedgate.step_window w WHERE w.run = n.run) steps ON true
    LEFT JOIN LATERAL (
        SELECT count(*) AS columns, max(missing_ratio) AS missing_ratio, max(unseen_ratio) AS unseen_ratio,
               max(outside_ratio) AS outside_ratio, max(drift_psi) AS drift_psi,
               (array_agg(name ORDER BY drift_psi DESC, name) FILTER (WHERE drift_psi IS NOT NULL))[1] AS drifted
        FROM fedgate.input_column i WHERE i.run = n.run) input ON true
    LEFT JOIN LATERAL (
        SELECT sum(p.rows) AS rows, sum(p.rows * (p.low + p.high) / 2) / nullif(sum(p.rows), 0) AS mean,
               sum(p.positives)::double precision / nullif(sum(p.rows), 0) AS positive_ratio
        FROM fedgate.prediction_bin p WHERE p.run = n.run AND p.model = 'candidate') predictions ON true
    LEFT JOIN LATERAL (
        SELECT jsonb_object_agg(metric, value ORDER BY seq) AS figures FROM fedgate.metric m
        WHERE m.run = n.run AND m.model = 'candidate' AND m.split = 'test' AND coalesce(m.slice_column, '') = '') metrics ON true
    LEFT JOIN LATERAL (
        SELECT count(*) AS count FROM fedgate.metric m
        WHERE m.run = n.run AND m.model = 'candidate' AND m.slice_column <> '') slices ON true
    LEFT JOIN LATERAL (
        SELECT m.slice_column || ' = ' || m.slice_value AS slice, m.metric, m.value FROM fedgate.metric m
        WHERE m.run = n.run AND m.model = 'candidate' AND m.slice_column <> ''
        ORDER BY CASE WHEN m.metric IN ('auc', 'accuracy', 'utility') THEN m.value ELSE -m.value END, m.seq LIMIT 1) worst ON true;
COMMENT ON VIEW fedgate.version_life IS 'one row per version: health, input, predictions, slices, outcomes, cost';
