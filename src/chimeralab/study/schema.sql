-- The tables of a study. Later versions add to them by steps of their own in database.py.
CREATE TABLE study (key TEXT PRIMARY KEY, value TEXT NOT NULL) WITHOUT ROWID;
CREATE TABLE runs (
    id INTEGER PRIMARY KEY,
    pid INTEGER NOT NULL,
    host TEXT NOT NULL,
    version TEXT NOT NULL,
    lock TEXT,
    settings TEXT NOT NULL,
    started TEXT NOT NULL,
    ended TEXT,
    reason TEXT
);
CREATE TABLE trajectories (
    id TEXT PRIMARY KEY,
    position INTEGER NOT NULL,
    condition TEXT NOT NULL,
    prompt TEXT NOT NULL,
    bucket TEXT NOT NULL,
    prompt_text TEXT NOT NULL,
    repeat INTEGER NOT NULL,
    opening TEXT NOT NULL,
    outcome TEXT,
    reason TEXT,
    ended TEXT,
    turns INTEGER,
    closing TEXT
) WITHOUT ROWID;
CREATE TABLE attempts (
    id INTEGER PRIMARY KEY,
    run INTEGER NOT NULL REFERENCES runs (id),
    trajectory TEXT NOT NULL REFERENCES trajectories (id),
    turn INTEGER NOT NULL,
    model TEXT NOT NULL,
    seed INTEGER,
    temperature REAL NOT NULL,
    top_p REAL NOT NULL,
    max_tokens INTEGER NOT NULL,
    started TEXT NOT NULL,
    ended TEXT,
    outcome TEXT,
    reason TEXT,
    rejected_text TEXT,
    prompt_tokens INTEGER,
    completion_tokens INTEGER,
    reported_model TEXT,
    cost REAL,
    seconds REAL,
    probe TEXT NOT NULL DEFAULT '',
    estimate REAL
);
CREATE INDEX attempts_of_turn ON attempts (trajectory, turn);
CREATE TABLE charges (
    id INTEGER PRIMARY KEY,
    model TEXT NOT NULL,
    purpose TEXT NOT NULL,
    cost REAL NOT NULL,
    at TEXT NOT NULL
);
CREATE TABLE turns (
    trajectory TEXT NOT NULL REFERENCES trajectories (id),
    turn INTEGER NOT NULL,
    speaker TEXT NOT NULL,
    model TEXT NOT NULL,
    text TEXT NOT NULL,
    finish TEXT NOT NULL,
    attempt INTEGER NOT NULL UNIQUE REFERENCES attempts (id),
    hash TEXT NOT NULL,
    PRIMARY KEY (trajectory, turn)
) WITHOUT ROWID;
CREATE TABLE events (
    id INTEGER PRIMARY KEY,
    trajectory TEXT NOT NULL REFERENCES trajectories (id),
    turn INTEGER NOT NULL,
    kind TEXT NOT NULL,
    detail TEXT NOT NULL,
    at TEXT NOT NULL
);
CREATE INDEX events_of_trajectory ON events (trajectory);
CREATE TABLE detections (
    trajectory TEXT NOT NULL REFERENCES trajectories (id),
    detector TEXT NOT NULL,
    detection TEXT NOT NULL,
    at TEXT NOT NULL,
    PRIMARY KEY (trajectory, detector)
) WITHOUT ROWID;
CREATE TABLE probes (
    trajectory TEXT NOT NULL REFERENCES trajectories (id),
    turn INTEGER NOT NULL,
    probe TEXT NOT NULL,
    text TEXT NOT NULL,
    attempt INTEGER NOT NULL UNIQUE REFERENCES attempts (id),
    hash TEXT,
    PRIMARY KEY (trajectory, turn, probe)
) WITHOUT ROWID;
CREATE TABLE trials (
    trajectory TEXT NOT NULL REFERENCES trajectories (id),
    trial INTEGER NOT NULL,
    item TEXT NOT NULL,
    kind TEXT NOT NULL,
    options INTEGER NOT NULL,
    response TEXT,
    truth TEXT NOT NULL,
    correct INTEGER,
    confidence REAL,
    weight REAL,
    novel INTEGER,
    bias INTEGER NOT NULL,
    signal TEXT,
    pair TEXT,
    frame TEXT,
    phase TEXT,
    round INTEGER NOT NULL,
    consensus TEXT,
    needs TEXT NOT NULL,
    lag INTEGER,
    disturbed INTEGER NOT NULL,
    alone TEXT,
    belief REAL,
    recall_lag INTEGER,
    recall_options INTEGER,
    recall_response TEXT,
    recall_truth TEXT,
    recall_correct INTEGER,
    intrusion INTEGER,
    asked INTEGER NOT NULL,
    unread INTEGER NOT NULL,
    noticed INTEGER,
    states TEXT,
    recall_states TEXT,
    claim TEXT,
    evidence TEXT,
    stands INTEGER,
    gone INTEGER,
    PRIMARY KEY (trajectory, trial)
) WITHOUT ROWID;
CREATE TABLE raters (
    id TEXT PRIMARY KEY,
    name TEXT NOT NULL,
    identity TEXT NOT NULL
) WITHOUT ROWID;
CREATE TABLE ratings (
    trajectory TEXT NOT NULL REFERENCES trajectories (id),
    rater TEXT NOT NULL REFERENCES raters (id),
    label INTEGER CHECK (label IN (0, 1)),
    reason TEXT NOT NULL,
    turns TEXT NOT NULL,
    step TEXT,
    kinds TEXT NOT NULL,
    noted TEXT NOT NULL,
    attempts TEXT NOT NULL,
    text_sha256 TEXT NOT NULL,
    at TEXT NOT NULL,
    PRIMARY KEY (trajectory, rater)
) WITHOUT ROWID;
CREATE TABLE samples (
    name TEXT PRIMARY KEY,
    kind TEXT NOT NULL CHECK (kind IN ('calibration', 'gate')),
    sample TEXT NOT NULL,
    drawn_by TEXT NOT NULL,
    drawn TEXT NOT NULL,
    used TEXT,
    labels_sha256 TEXT,
    passed INTEGER
) WITHOUT ROWID;
CREATE TRIGGER a_gate_sample_is_used_once BEFORE UPDATE ON samples
WHEN old.used IS NOT NULL OR new.kind != old.kind OR new.sample != old.sample
BEGIN SELECT RAISE(ABORT, 'a gate sample is used once'); END;
CREATE TABLE packets (
    name TEXT PRIMARY KEY,
    packet TEXT NOT NULL,
    made TEXT NOT NULL
) WITHOUT ROWID;
CREATE TABLE chain (
    id INTEGER PRIMARY KEY,
    kind TEXT NOT NULL,
    change TEXT NOT NULL,
    key TEXT NOT NULL,
    row BLOB NOT NULL,
    head BLOB NOT NULL
);
CREATE TABLE invitations (
    rater TEXT NOT NULL,
    packet TEXT NOT NULL,
    task TEXT NOT NULL CHECK (task IN ('rate', 'adjudicate')),
    sample TEXT,
    token_sha256 TEXT NOT NULL UNIQUE,
    invited TEXT NOT NULL,
    handed_in TEXT,
    PRIMARY KEY (rater, packet)
) WITHOUT ROWID;
CREATE TABLE drafts (
    id INTEGER PRIMARY KEY,
    packet TEXT NOT NULL,
    sheet TEXT NOT NULL,
    label TEXT NOT NULL,
    turns TEXT NOT NULL,
    reason TEXT NOT NULL,
    at TEXT NOT NULL
);
CREATE INDEX drafts_of_packet ON drafts (packet, id);
CREATE TABLE adjudications (
    trajectory TEXT NOT NULL REFERENCES trajectories (id),
    sample TEXT NOT NULL REFERENCES samples (name),
    label INTEGER CHECK (label IN (0, 1)),
    reason TEXT NOT NULL,
    turns TEXT NOT NULL,
    adjudicator TEXT NOT NULL,
    at TEXT NOT NULL,
    PRIMARY KEY (trajectory, sample)
) WITHOUT ROWID;
