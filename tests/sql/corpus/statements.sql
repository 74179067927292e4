-- runs
SET 'execution.checkpointing.interval' = '60s';
-- runs
SET;
-- runs
SET 'pipeline.name' = 'fraud';
-- runs
SET 'table.local-time-zone' = 'UTC';
-- runs
SET 'parallelism.default' = '4';
-- refused: the setting 'table.exec.state.ttl'
SET 'table.exec.state.ttl' = '1h';
-- refused: table.local-time-zone = Asia/Shanghai
SET 'table.local-time-zone' = 'Asia/Shanghai';
-- refused: execution.runtime-mode = batch
SET 'execution.runtime-mode' = 'batch';
-- runs
RESET;
-- rejected
SET execution.checkpointing.interval = '60s';
-- rejected
SET 'a';
-- runs
CREATE TABLE t (a INT) WITH ('connector' = 'print');
-- runs
CREATE TEMPORARY TABLE t (a INT) WITH ('connector' = 'print');
-- runs
CREATE TABLE IF NOT EXISTS t (a INT COMMENT 'the a') COMMENT 'a table' WITH ('connector' = 'print');
-- runs
CREATE TABLE t (a INT, b AS a * 2) WITH ('connector' = 'datagen', 'rows-per-second' = '5');
-- runs
CREATE TABLE t (a INT NOT NULL, b STRING NULL) WITH ('connector' = 'datagen');
-- runs
CREATE TABLE t (`timestamp` TIMESTAMP(3), `value` STRING) WITH ('connector' = 'print');
-- runs
CREATE TABLE t (a STRING, `partition` INT METADATA VIRTUAL, o BIGINT METADATA FROM 'offset' VIRTUAL, ts TIMESTAMP_LTZ(3) METADATA FROM 'timestamp') WITH ('connector' = 'kafka', 'topic' = 't', 'properties.bootstrap.servers' = 'k:9092', 'format' = 'json');
-- runs
CREATE TABLE t (a STRING, h MAP<STRING, BYTES> METADATA FROM 'headers') WITH ('connector' = 'kafka', 'topic' = 't', 'properties.bootstrap.servers' = 'k:9092', 'format' = 'json');
-- runs
CREATE TABLE t (ms BIGINT, ts AS TO_TIMESTAMP_LTZ(ms, 3), WATERMARK FOR ts AS ts - INTERVAL '1' MINUTE) WITH ('connector' = 'kafka', 'topic' = 't', 'properties.bootstrap.servers' = 'k:9092', 'format' = 'json');
-- runs
CREATE TABLE t (ts TIMESTAMP(3), WATERMARK FOR ts AS ts) WITH ('connector' = 'kafka', 'topic' = 't', 'properties.bootstrap.servers' = 'k:9092', 'format' = 'json');
-- runs
CREATE TABLE t (a STRING, PRIMARY KEY (a) NOT ENFORCED) WITH ('connector' = 'upsert-kafka', 'topic' = 't', 'properties.bootstrap.servers' = 'k:9092', 'key.format' = 'raw', 'value.format' = 'json');
-- runs
CREATE TABLE t (a STRING PRIMARY KEY NOT ENFORCED, b INT) WITH ('connector' = 'upsert-kafka', 'topic' = 't', 'properties.bootstrap.servers' = 'k:9092', 'key.format' = 'json', 'value.format' = 'json', 'value.fields-include' = 'EXCEPT_KEY');
-- runs
CREATE TABLE t (a STRING, CONSTRAINT pk PRIMARY KEY (a) NOT ENFORCED) WITH ('connector' = 'jdbc', 'url' = 'jdbc:mysql://h/d', 'table-name' = 't', 'username' = 'u', 'password' = 'p');
-- runs
CREATE TABLE t (k_id INT, v STRING) WITH ('connector' = 'kafka', 'topic' = 't', 'properties.bootstrap.servers' = 'k:9092', 'value.format' = 'json', 'key.format' = 'json', 'key.fields' = 'k_id', 'key.fields-prefix' = 'k_', 'value.fields-include' = 'EXCEPT_KEY');
-- runs
CREATE TABLE t (a STRING) WITH ('connector' = 'kafka', 'topic-pattern' = 't-.*', 'properties.bootstrap.servers' = 'k:9092', 'format' = 'csv', 'csv.field-delimiter' = ';');
-- runs
CREATE TABLE t (a STRING) WITH ('connector' = 'kafka', 'topic' = 't', 'properties.bootstrap.servers' = 'k:9092', 'format' = 'raw', 'scan.startup.mode' = 'specific-offsets', 'scan.startup.specific-offsets' = 'partition:0,offset:42;partition:1,offset:300');
-- runs
CREATE TABLE t (a STRING) WITH ('connector' = 'kafka', 'topic' = 't', 'properties.bootstrap.servers' = 'k:9092', 'format' = 'json', 'scan.startup.mode' = 'timestamp', 'scan.startup.timestamp-millis' = '1767225600000', 'scan.bounded.mode' = 'latest-offset');
-- runs
CREATE TABLE t (a STRING) WITH ('connector' = 'kafka', 'topic' = 't', 'properties.bootstrap.servers' = 'k:9092', 'properties.group.id' = 'g', 'properties.enable.auto.commit' = 'true', 'properties.auto.commit.interval.ms' = '1000', 'properties.linger.ms' = '5', 'properties.buffer.memory' = '33554432', 'properties.batch.size' = '16384', 'format' = 'json', 'sink.delivery-guarantee' = 'exactly-once', 'sink.transactional-id-prefix' = 'tx');
-- runs
CREATE TABLE t (a INT) WITH ('connector' = 'iceberg', 'catalog-name' = 'lake', 'catalog-type' = 'rest', 'uri' = 'http://localhost', 'catalog-database' = 'db');
-- runs
CREATE TABLE t (a CHAR(3), b VARCHAR(10), c VARCHAR, d BINARY(3), e VARBINARY(10), f DOUBLE PRECISION, g DEC(10, 2), h NUMERIC(5), i INTEGER) WITH ('connector' = 'print');
-- runs
CREATE TABLE t (a TIMESTAMP, b TIMESTAMP(6), c TIMESTAMP(3) WITHOUT TIME ZONE, d TIMESTAMP(3) WITH LOCAL TIME ZONE, e TIMESTAMP_LTZ(0)) WITH ('connector' = 'print');
-- runs
CREATE TABLE t (a ARRAY<ROW<b INT, c MAP<STRING, ARRAY<BIGINT>>>>, d INT ARRAY, e ROW(f INT 'the f', g STRING NOT NULL)) WITH ('connector' = 'print');
-- refused: MULTISET
CREATE TABLE t (a MULTISET<STRING>) WITH ('connector' = 'print');
-- refused: TIME
CREATE TABLE t (a TIME(0)) WITH ('connector' = 'print');
-- refused: TIMESTAMP(9)
CREATE TABLE t (a TIMESTAMP(9)) WITH ('connector' = 'print');
-- refused: the watermark ts - INTERVAL '5' SECOND - INTERVAL '1' SECOND
CREATE TABLE t (ts TIMESTAMP(3), WATERMARK FOR ts AS ts - INTERVAL '5' SECOND - INTERVAL '1' SECOND) WITH ('connector' = 'datagen');
-- runs
CREATE TABLE t (a INT) WITH ('connector' = 'kafka', 'topic' = 't', 'properties.bootstrap.servers' = 'k:9092', 'format' = 'avro');
-- runs
CREATE TABLE t (a INT) WITH ('connector' = 'kafka', 'topic' = 't', 'properties.bootstrap.servers' = 'k:9092', 'format' = 'avro-confluent', 'avro-confluent.url' = 'http://r:8081', 'avro-confluent.subject' = 't-value');
-- refused: 'format' = 'protobuf'
CREATE TABLE t (a INT) WITH ('connector' = 'kafka', 'topic' = 't', 'properties.bootstrap.servers' = 'k:9092', 'format' = 'protobuf');
-- refused: 'avro.timestamp_mapping.legacy' = 'false'
CREATE TABLE t (a INT) WITH ('connector' = 'kafka', 'topic' = 't', 'properties.bootstrap.servers' = 'k:9092', 'format' = 'avro', 'avro.timestamp_mapping.legacy' = 'false');
-- runs
CREATE TABLE t (a INT, PRIMARY KEY (a) NOT ENFORCED) WITH ('connector' = 'kafka', 'topic' = 't', 'properties.bootstrap.servers' = 'k:9092', 'format' = 'debezium-json');
-- runs
CREATE TABLE t (a INT, PRIMARY KEY (a) NOT ENFORCED) WITH ('connector' = 'kafka', 'topic' = 't', 'properties.bootstrap.servers' = 'k:9092', 'format' = 'debezium-avro-confluent', 'debezium-avro-confluent.url' = 'http://r:8081');
-- refused: table t, of another one's changes, without a PRIMARY KEY of its columns
CREATE TABLE t (a INT) WITH ('connector' = 'kafka', 'topic' = 't', 'properties.bootstrap.servers' = 'k:9092', 'format' = 'debezium-json');
-- refused: 'key.format' = 'debezium-json'
CREATE TABLE t (a INT, b INT, PRIMARY KEY (a) NOT ENFORCED) WITH ('connector' = 'upsert-kafka', 'topic' = 't', 'properties.bootstrap.servers' = 'k:9092', 'key.format' = 'debezium-json', 'value.format' = 'json');
-- refused: 'format' = 'canal-json'
CREATE TABLE t (a INT) WITH ('connector' = 'kafka', 'topic' = 't', 'properties.bootstrap.servers' = 'k:9092', 'format' = 'canal-json');
-- refused: connector 'filesystem'
CREATE TABLE t (a INT) WITH ('connector' = 'filesystem', 'path' = '/tmp/t', 'format' = 'csv');
-- refused: 'sink.partitioner' = 'fixed'
CREATE TABLE t (a INT) WITH ('connector' = 'kafka', 'topic' = 't', 'properties.bootstrap.servers' = 'k:9092', 'format' = 'json', 'sink.partitioner' = 'fixed'); INSERT INTO t SELECT CAST(auction AS INT) FROM bids;
-- runs
INSERT INTO counts SELECT a, COUNT(*) FROM shared GROUP BY a;
-- refused: 'connector.type'
CREATE TABLE side_input (k BIGINT, v STRING) WITH ('connector.type' = 'filesystem', 'connector.path' = 'file:///tmp/side', 'format.type' = 'csv');
-- runs
CREATE TABLE t (a INT, PRIMARY KEY (a) NOT ENFORCED) WITH ('connector' = 'jdbc', 'url' = 'jdbc:postgresql://localhost/shop', 'table-name' = 'shop.t', 'onceflow.schema' = 'onceflow');
-- refused: the option 'properties.max.block.ms'
CREATE TABLE t (a INT) WITH ('connector' = 'kafka', 'topic' = 't', 'properties.bootstrap.servers' = 'k:9092', 'format' = 'json', 'properties.max.block.ms' = '1');
-- refused: CREATE TABLE … LIKE
CREATE TABLE t (b INT) WITH ('connector' = 'print') LIKE bids;
-- refused: CREATE TABLE … AS
CREATE TABLE t WITH ('connector' = 'print') AS SELECT * FROM bids;
-- refused: DISTRIBUTED
CREATE TABLE t (a INT) DISTRIBUTED BY (a) INTO 4 BUCKETS WITH ('connector' = 'print');
-- refused: CREATE CATALOG
CREATE CATALOG c WITH ('type' = 'generic_in_memory');
-- refused: CREATE DATABASE
CREATE DATABASE d;
-- refused: USE
USE CATALOG default_catalog;
-- refused: a name with a catalogue or a database
CREATE TABLE db.t (a INT) WITH ('connector' = 'print');
-- refused: ALTER
ALTER TABLE bids RENAME TO offers;
-- refused: TRUNCATE
TRUNCATE TABLE counts;
-- refused: DELETE
DELETE FROM counts WHERE n = 1;
-- refused: UPDATE
UPDATE counts SET n = 1;
-- refused: CREATE OR REPLACE
CREATE OR REPLACE TABLE t (a INT) WITH ('connector' = 'print');
-- rejected
CREATE TABLE t (timestamp TIMESTAMP(3)) WITH ('connector' = 'print');
-- rejected
CREATE TABLE t (value STRING) WITH ('connector' = 'print');
-- rejected
CREATE TABLE t (a INT,) WITH ('connector' = 'print');
-- rejected
CREATE TABLE t (a INT) WITH (connector = 'print');
-- rejected
CREATE TABLE t (a INT) WITH ('connector' = 'print';
-- unknown
CREATE TABLE t (a STRING PRIMARY KEY) WITH ('connector' = 'print');
-- rejected
CREATE TABLE t (a NOTYPE<INT>) WITH ('connector' = 'print');
-- rejected
CREATE TABLE t (a INT) WITH ("connector" = "print");
-- exception: an unquoted column count is taken
CREATE TABLE t (user_id STRING, count BIGINT) WITH ('connector' = 'print');
-- rejected
CRAETE TABLE t (a INT);
-- runs
CREATE VIEW v AS SELECT auction, price FROM bids;
-- runs
CREATE TEMPORARY VIEW v (a, p) AS SELECT auction, price FROM bids;
-- runs
CREATE VIEW IF NOT EXISTS big_bids AS SELECT * FROM bids;
-- runs
CREATE TEMPORARY FUNCTION f AS 'tests.sql.own.double' LANGUAGE PYTHON;
-- runs
CREATE TEMPORARY SYSTEM FUNCTION f AS 'tests.sql.own.double' LANGUAGE PYTHON;
-- refused: a function of Java's
CREATE FUNCTION f AS 'com.example.F';
-- refused: LANGUAGE SCALA
CREATE FUNCTION f AS 'com.example.F' LANGUAGE SCALA;
-- runs
DROP TABLE bids;
-- runs
DROP TEMPORARY TABLE IF EXISTS nothing;
-- runs
DROP VIEW big_bids;
-- runs
DROP FUNCTION IF EXISTS f;
-- refused: DROP DATABASE
DROP DATABASE d;
-- rejected
DROP;
-- runs
SHOW TABLES;
-- runs
SHOW VIEWS;
-- runs
SHOW FUNCTIONS;
-- runs
SHOW CREATE TABLE bids;
-- runs
SHOW CREATE VIEW big_bids;
-- refused: SHOW CATALOGS
SHOW CATALOGS;
-- refused: SHOW JOBS
SHOW JOBS;
-- runs
DESCRIBE bids;
-- runs
DESC bids;
-- runs
EXPLAIN SELECT * FROM bids;
-- runs
EXPLAIN PLAN FOR SELECT * FROM bids;
-- runs
EXPLAIN INSERT INTO counts SELECT auction, 1 FROM bids;
-- refused: EXPLAIN ESTIMATED_COST
EXPLAIN ESTIMATED_COST SELECT * FROM bids;
-- runs
INSERT INTO counts SELECT auction, 1 FROM bids;
-- runs
INSERT INTO counts (auction) SELECT auction FROM bids;
-- runs
INSERT INTO counts SELECT auction, COUNT(*) FROM bids GROUP BY auction;
-- runs
INSERT INTO latest SELECT auction, COUNT(*) FROM bids GROUP BY auction HAVING COUNT(*) > 1;
-- runs
EXECUTE STATEMENT SET BEGIN INSERT INTO counts SELECT auction, 1 FROM bids; INSERT INTO latest SELECT auction, 2 FROM asks; END;
-- runs
EXECUTE INSERT INTO counts SELECT auction, 1 FROM bids;
-- refused: INSERT OVERWRITE
INSERT OVERWRITE counts SELECT auction, 1 FROM bids;
-- refused: PARTITION
INSERT INTO counts PARTITION (auction = 1) SELECT 1 FROM bids;
-- refused: VALUES
INSERT INTO counts VALUES (1, 2);
-- refused: ADD
ADD JAR '/tmp/x.jar';
-- refused: LOAD
LOAD MODULE hive;
-- refused: CALL
CALL proc(1);
-- rejected
INSERT counts SELECT 1;
-- rejected
SELEC * FROM bids;
-- rejected
EXECUTE STATEMENT SET BEGIN SELECT * FROM bids; END;
-- refused: ARRAY in csv
CREATE TABLE t (a STRING, b ARRAY<INT>) WITH ('connector' = 'kafka', 'topic' = 't', 'properties.bootstrap.servers' = 'k:9092', 'format' = 'csv');
-- refused: MAP in csv
CREATE TABLE t (a STRING, b MAP<STRING, INT>) WITH ('connector' = 'kafka', 'topic' = 't', 'properties.bootstrap.servers' = 'k:9092', 'format' = 'csv');
-- refused: ROW in csv
CREATE TABLE t (a STRING, b ROW<a INT>) WITH ('connector' = 'kafka', 'topic' = 't', 'properties.bootstrap.servers' = 'k:9092', 'format' = 'csv');
-- refused: BYTES in csv
CREATE TABLE t (a STRING, b BYTES) WITH ('connector' = 'kafka', 'topic' = 't', 'properties.bootstrap.servers' = 'k:9092', 'format' = 'csv');
-- unknown
INSERT INTO counts (auction, auction) SELECT auction, 1 FROM bids;
-- refused: PARTITIONED BY
CREATE TABLE t (a INT, b INT) PARTITIONED BY (b) WITH ('connector' = 'print');
-- refused: CREATE TABLE … LIKE
CREATE TABLE t WITH ('connector' = 'print') LIKE bids;
-- refused: an outer join without times
INSERT INTO counts SELECT a.auction, 1 FROM bids a LEFT JOIN bids b ON a.auction = b.auction AND a.bid_time >= b.bid_time;
