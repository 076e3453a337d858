-- Messages that the state of a run has and its log does not have yet: it is not known whether one of them is the answer.
ALTER TABLE run ADD COLUMN unrecorded BLOB;
