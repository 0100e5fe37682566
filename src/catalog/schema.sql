CREATE TABLE place (
  id INTEGER PRIMARY KEY,
  name TEXT NOT NULL UNIQUE,
  label TEXT,
  uuid TEXT UNIQUE,
  serial TEXT,
  mount ANY,
  seen INTEGER
) STRICT;
CREATE TABLE tree (
  id INTEGER PRIMARY KEY,
  place INTEGER NOT NULL REFERENCES place ON DELETE CASCADE,
  below ANY NOT NULL,
  list ANY,
  time INTEGER,
  UNIQUE (place, below)
) STRICT;
CREATE TABLE directory (
  id INTEGER PRIMARY KEY,
  tree INTEGER NOT NULL REFERENCES tree ON DELETE CASCADE,
  path ANY NOT NULL
) STRICT;
CREATE INDEX directory_tree ON directory (tree);
CREATE TABLE algorithm (
  id INTEGER PRIMARY KEY,
  name TEXT NOT NULL UNIQUE,
  is_enough INTEGER NOT NULL
) STRICT;
CREATE TABLE file (
  id INTEGER PRIMARY KEY,
  directory INTEGER NOT NULL REFERENCES directory ON DELETE CASCADE,
  name ANY NOT NULL,
  algorithm INTEGER REFERENCES algorithm,
  digest BLOB,
  size INTEGER,
  verified INTEGER,
  proof INTEGER NOT NULL
) STRICT;
CREATE INDEX file_directory ON file (directory);
CREATE INDEX file_name ON file (name);
CREATE INDEX file_digest ON file (digest);
