-- The copy of the pointer records: it decides nothing, it shows when either side was rewritten.
--
-- Rows enter through record_decision and are never changed: triggers refuse UPDATE, DELETE and TRUNCATE. Whoever owns the
-- database can remove the triggers, and the hash chain then shows the row that differs (fedgate verify).
CREATE TABLE fedgate.decision (
    home_id         text NOT NULL CHECK (home_id <> ''),
    seq             bigint NOT NULL CHECK (seq > 0),
    previous        bigint CHECK (previous < seq),
    record_digest   text NOT NULL CHECK (record_digest ~ '^[0-9a-f]{64}$'),
    previous_digest text,
    decision        text,
    kind            text CHECK (kind IN ('adopt', 'promote', 'revert', 'rollback')),
    from_version    text,
    to_version      text,
    to_kind         text,
    actor           text,
    actor_uid       bigint,
    reason          text,
    run             text,
    verdict_digest  text,
    release_digest  text,
    decided         timestamptz,
    record          jsonb NOT NULL,
    copied          timestamptz NOT NULL DEFAULT now(),
    PRIMARY KEY (home_id, seq),
    UNIQUE (home_id, previous),
    UNIQUE (home_id, decision)
);

CREATE FUNCTION fedgate.refuse_change() RETURNS trigger LANGUAGE plpgsql SET search_path = pg_catalog, pg_temp AS $$
BEGIN
    RAISE EXCEPTION 'rows of fedgate.decision are never changed: % refused', TG_OP USING ERRCODE = 'FG002';
END
$$;

CREATE TRIGGER decision_no_change BEFORE UPDATE OR DELETE ON fedgate.decision
    FOR EACH ROW EXECUTE FUNCTION fedgate.refuse_change();
CREATE TRIGGER decision_no_truncate BEFORE TRUNCATE ON fedgate.decision
    FOR EACH STATEMENT EXECUTE FUNCTION fedgate.refuse_change();

-- Adds a record, or does nothing when it is there already. FG001: another record of that sequence, or one that does not
-- continue the one before it.
CREATE FUNCTION fedgate.record_decision(home text, entry jsonb) RETURNS void
    LANGUAGE plpgsql SECURITY DEFINER SET search_path = pg_catalog, pg_temp AS $$
DECLARE
    number bigint := (entry ->> 'seq')::bigint;
    digest text := entry ->> 'record_digest';
    known  text;
BEGIN
    SELECT d.record_digest INTO known FROM fedgate.decision d WHERE d.home_id = home AND d.seq = number;
    IF FOUND THEN
        IF known IS DISTINCT FROM digest THEN
            RAISE EXCEPTION 'pointer record % is there with digest %, not %', number, known, digest USING ERRCODE = 'FG001';
        END IF;
        RETURN;
    END IF;
    SELECT d.record_digest INTO known FROM fedgate.decision d WHERE d.home_id = home AND d.seq < number ORDER BY d.seq DESC LIMIT 1;
    IF FOUND AND known IS DISTINCT FROM entry ->> 'previous_digest' THEN
        RAISE EXCEPTION 'pointer record % does not continue the record before it: digest % expected', number, known
            USING ERRCODE = 'FG001';
    END IF;
    INSERT INTO fedgate.decision (home_id, seq, previous, record_digest, previous_digest, decision, kind, from_version, to_version,
                                  to_kind, actor, actor_uid, reason, run, verdict_digest, release_digest, decided, record)
    VALUES (home, number, (entry ->> 'previous')::bigint, digest, entry ->> 'previous_digest', entry ->> 'decision', entry ->> 'kind',
            entry ->> 'from', entry ->> 'to', entry ->> 'to_kind', entry ->> 'actor', (entry ->> 'actor_uid')::bigint,
            entry ->> 'reason', entry ->> 'run', entry ->> 'verdict_digest', entry ->> 'release_digest',
            nullif(entry ->> 'time', '')::timestamptz, entry);
END
$$;

REVOKE ALL ON fedgate.decision FROM PUBLIC;
REVOKE ALL ON FUNCTION fedgate.record_decision(text, jsonb) FROM PUBLIC;
