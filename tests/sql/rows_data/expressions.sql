-- Expressions over the rows of given.json, one in each line. Flink's answers are in flink.json (make sql-rows), and
-- test_sql_rows.py compares Spark's with them; what is known to differ is in ours.json, with the reason.

-- == columns
id
flag
i
j
tiny
small
big
f
d
m
n
z
s
p
u
o
v
b
dt
ts
ts2
ts6
ts0
ltz
arr
mp
r

-- == literals
1
-1
2147483647
2147483648
-2147483648
9223372036854775807
1.5
1.50
0.05
-1.005
00012.30
1E3
1.5e-3
'text'
''
'it''s'
'a\nb'
'a\\b'
'ÄÖ😀'
TRUE
FALSE
CAST(NULL AS INT)
DATE '2024-02-29'
DATE '0001-01-01'
TIMESTAMP '2024-02-29 23:59:59'
TIMESTAMP '2024-02-29 23:59:59.5'
TIMESTAMP '2024-02-29 23:59:59.123456'
TIMESTAMP '1969-12-31 23:59:59.999'

-- == comparison and logic
i = j
i <> j
i < j
i <= j
i > j
i >= j
i = big
i = d
i = m
i < n
big = d
big < d
big = f
f = d
f < d
d = f
d <> f
d >= f
d < f
CASE d WHEN f THEN 1 ELSE 2 END
NULLIF(d, f)
d IN (f, 1E0)
d IS DISTINCT FROM f
d IS NOT DISTINCT FROM f
d > 1E300
d = 0
d < 0E0
d >= 0E0
m = 0.05
m = 0.050
m < 0.1
m = 2.5E0
n < m
z = i
f = 0.1
f < 0.1
d = 0.1
s = p
s < p
s < 'a'
s = 'a '
flag = TRUE
NOT flag
flag AND i > 0
flag OR i > 0
flag IS TRUE
flag IS NOT TRUE
flag IS FALSE
flag IS NOT FALSE
flag IS UNKNOWN
flag IS NOT UNKNOWN
i IS NULL
i IS NOT NULL
i IS DISTINCT FROM j
i IS NOT DISTINCT FROM j
d IS NOT DISTINCT FROM d
d IS DISTINCT FROM 0E0
i BETWEEN -1 AND 7
i NOT BETWEEN -1 AND 7
d BETWEEN 0 AND 1
m BETWEEN j AND 100
i IN (1, 7, 3)
i NOT IN (1, 7, 3)
i IN (1, NULL)
i NOT IN (1, NULL)
m IN (1, 2.50, 0.05)
d IN (0.1, 2.5)
big IN (1, 2147483648)
s IN ('a', 'ABC')
s IN ('a', NULL)
dt IN (DATE '1970-01-01', DATE '2024-02-29')
ts IN (TIMESTAMP '1970-01-01 00:00:00')
dt = DATE '2024-02-29'
ts < ts2
ts = ts6
ts < ts6
ts = ltz
ltz < ts
ts >= TIMESTAMP '1970-01-01 00:00:00'
ltz = TIMESTAMP '1970-01-01 00:00:00'
ts BETWEEN ts2 - INTERVAL '1' DAY AND ts2
b = b
b < b
arr = arr
arr = ARRAY[1, 2, 3]
r = r

-- == arithmetic
i + 1
i + j
i - j
i * j
i * 2
i / j
i / 2
i % j
i % 3
MOD(i, j)
MOD(i, -3)
-i
- i
+i
-big
tiny + tiny
tiny + 1
tiny * tiny
small + small
small * tiny
tiny / 2
tiny % 3
-tiny
big + 1
big - 1
big * 2
big + i
big / 7
big / i * 0
big % 7
MOD(big, i * 0 + 7)
i / 0
i % 0
MOD(i, 0)
big / (j - j)
f + 1
f + f
f * 2
f / 3
f / j
f * i
f + m
-f
d + 1
d - d
d * 2
d * d
d / 2
d / 3E0
d / 0
d / 0E0
d / d
d * i
d + m
d * m
-d
m + 1
m + m
m - 1.005
m * m
m * 2
m * 1.5
m * i
m * big
m / 3
m / m
m / j
m / 0.3
m / 0.0333
m / 0
m % 3
m % 0.7
MOD(m, 3)
MOD(m, 0.3)
MOD(i, 2.5)
MOD(m, z)
-m
-n
z + z
z * z
z / z
z * 0.5
z / 3
z + m
z + n
n + n
n - n
n * n
n * 2
n / 3
n / n
n / m
n * m
n + m
n + 1
n * 1.5
n % 7
1 / 3
1 / 3.0
1.0 / 3
10 / 4
10 / 4.0
7 - m
2 * 3.5
1.1 + 2.22
1E0 / 3
i * (j + 1) - 2
i + d
i + f
tiny + big
tiny + m
small * m
big * big

-- == functions of numbers
ABS(i)
ABS(tiny)
ABS(small)
ABS(big)
ABS(f)
ABS(d)
ABS(m)
ABS(n)
SIGN(i)
SIGN(big)
SIGN(f)
SIGN(d)
SIGN(m)
SIGN(z)
SQRT(d)
SQRT(i)
SQRT(m)
SQRT(big)
POWER(d, 2)
POWER(i, 2)
POWER(m, 0.5)
POWER(2, j)
POWER(d, 0.5)
EXP(d)
EXP(i)
EXP(m)
CEIL(i)
CEIL(big)
CEIL(f)
CEIL(d)
CEIL(m)
CEIL(n)
CEILING(d)
FLOOR(i)
FLOOR(f)
FLOOR(d)
FLOOR(m)
FLOOR(n)
FLOOR(z)
ROUND(i)
ROUND(i, 1)
ROUND(i, -1)
i % tiny
big % small
ROUND(big)
ROUND(big, -2)
ROUND(tiny, -1)
ROUND(f)
ROUND(f, 1)
ROUND(d)
ROUND(d, 0)
ROUND(d, 1)
ROUND(d, 2)
ROUND(d, -1)
ROUND(m)
ROUND(m, 0)
ROUND(m, 1)
ROUND(m, 2)
ROUND(m, 5)
ROUND(m, -1)
ROUND(m, -5)
ROUND(n, 3)
ROUND(n)
ROUND(z, -1)
GREATEST(i, j)
GREATEST(i, j, 5)
GREATEST(i, big)
GREATEST(m, i)
GREATEST(d, 1)
GREATEST(f, d)
GREATEST(s, p)
GREATEST(i, NULL)
GREATEST(ts, ts2)
GREATEST(flag, TRUE)
LEAST(i, j)
LEAST(d, 1)
LEAST(d, f)
LEAST(s, p, 'b')
LEAST(m, 1.5, z)
LEAST(dt, DATE '2000-01-01')

-- == conditions
CASE WHEN i > 0 THEN 'p' WHEN i < 0 THEN 'negative' ELSE 'zero' END
CASE WHEN i > 0 THEN 'p' END
CASE i WHEN 0 THEN 'zero' WHEN 1 THEN 'one' ELSE s END
CASE WHEN flag THEN i ELSE big END
CASE WHEN flag THEN i ELSE d END
CASE WHEN flag THEN i ELSE m END
CASE WHEN flag THEN m ELSE 1.2345 END
CASE WHEN flag THEN f ELSE i END
CASE WHEN flag THEN f ELSE m END
CASE WHEN flag THEN ltz ELSE ts END
CASE WHEN flag THEN tiny ELSE small END
CASE WHEN flag THEN NULL ELSE i END
CASE WHEN flag THEN 1 ELSE 2.5 END
CASE WHEN flag THEN 'a' ELSE 'abc' END || '|'
CASE WHEN flag THEN ts ELSE ltz END
CASE WHEN flag THEN ts ELSE ts6 END
CASE WHEN NULL THEN 1 ELSE 2 END
CASE s WHEN 'a' THEN 1 WHEN NULL THEN 2 ELSE 3 END
CASE WHEN j <> 0 THEN i / j ELSE 0 END
COALESCE(i, 5)
COALESCE(NULL, i, j)
COALESCE(i, d)
COALESCE(f, i)
COALESCE(f, d)
COALESCE(f, m)
COALESCE(ltz, ts)
COALESCE(i, m)
COALESCE(s, 'none')
COALESCE(m, 0)
COALESCE(m, 0.12345)
COALESCE(tiny, 1)
COALESCE(ts, TIMESTAMP '1970-01-01 00:00:00')
COALESCE(flag, FALSE)
NULLIF(i, 0)
NULLIF(i, j)
NULLIF(s, '')
NULLIF(m, 2.5)
NULLIF(d, 0E0)
NULLIF(i, 1.0)
NULLIF(flag, TRUE)
IF(flag, 1, 2)
IF(flag, i, big)
IF(i > 0, m, z)
IF(flag, s, 'x')
IF(i > 0, 'pos', 'n')
IFNULL(i, 5)
IFNULL(s, 'x')
IFNULL(m, 0)
IFNULL(i, d)
IFNULL(tiny, 300)

-- == text
s || p
s || 'x' || s
'' || s
CONCAT(s, p)
CONCAT(s)
CONCAT(s, '-', p, '')
CONCAT_WS('-', s, p)
CONCAT_WS(p, s, 'x', s)
CONCAT_WS('', s, p)
CONCAT_WS(',')
UPPER(s)
LOWER(s)
CHAR_LENGTH(s)
CHARACTER_LENGTH(s)
ASCII(s)
ASCII(p)
REVERSE(s)
REPEAT(s, 2)
REPEAT(s, 0)
REPEAT(s, -1)
REPEAT(p, j)
TRIM(s)
TRIM(BOTH FROM s)
TRIM(LEADING FROM s)
TRIM(TRAILING FROM s)
TRIM(BOTH 'x' FROM s)
TRIM(BOTH 'xa' FROM s)
TRIM(LEADING 'a' FROM s)
TRIM(TRAILING 'C' FROM s)
TRIM(BOTH p FROM s)
TRIM(BOTH '' FROM s)
TRIM(' x' FROM s)
LTRIM(s)
RTRIM(s)
SUBSTRING(s, 1)
SUBSTRING(s, 2)
SUBSTRING(s, 0)
SUBSTRING(s, -2)
SUBSTRING(s, -100)
SUBSTRING(s, 100)
SUBSTRING(s, 1, 2)
SUBSTRING(s, 0, 2)
SUBSTRING(s, -2, 1)
SUBSTRING(s, -2, 5)
SUBSTRING(s, -5, 3)
SUBSTRING(s, 2, 0)
SUBSTRING(s, 2, -1)
SUBSTRING(s, 2, 100)
SUBSTRING(s, 3, 2147483647)
SUBSTRING(s FROM 2 FOR 3)
SUBSTRING(s FROM 3)
SUBSTRING(s, i)
SUBSTRING(s, i, j)
SUBSTRING(s, j, i)
SUBSTRING(s, j)
SUBSTRING(s, CAST(j AS TINYINT))
SUBSTRING(s, big)
SUBSTR(s, 1)
SUBSTR(s, 0)
SUBSTR(s, -2)
SUBSTR(s, 0, 2)
SUBSTR(s, 2, 2)
SUBSTR(s, i, j)
SUBSTR(s, -3, 2)
LEFT(s, 2)
LEFT(s, 0)
LEFT(s, -1)
LEFT(s, j)
RIGHT(s, 2)
RIGHT(s, 0)
RIGHT(s, -1)
RIGHT(s, j)
LPAD(s, 5, 'xy')
LPAD(s, 2, '0')
LPAD(s, 0, '0')
LPAD(s, -1, '0')
LPAD(s, 5, '')
LPAD(s, 1, '')
LPAD(s, j, p)
LPAD(s, 15, p)
RPAD(s, 5, 'xy')
RPAD(s, 2, '0')
RPAD(s, -1, '0')
RPAD(s, 5, '')
RPAD(s, j, p)
RPAD(s, 15, p)
POSITION('a' IN s)
POSITION('' IN s)
POSITION(p IN s)
POSITION('b' IN '😀ab')
LOCATE('a', s)
LOCATE(p, s)
LOCATE('', s)
LOCATE('a', s, 2)
LOCATE('a', s, 0)
LOCATE('a', s, -1)
LOCATE('c', s, j)
INSTR(s, 'a')
INSTR(s, p)
INSTR(s, '')
REPLACE(s, 'a', 'b')
REPLACE(s, 'a', '')
REPLACE(s, 'ab', p)
SPLIT_INDEX(s, ',', 0)
SPLIT_INDEX(s, ',', 1)
SPLIT_INDEX(s, ',', 2)
SPLIT_INDEX(s, ',', 3)
SPLIT_INDEX(s, ',', 9)
SPLIT_INDEX(s, ',', -1)
SPLIT_INDEX(s, '.', 1)
SPLIT_INDEX(s, '-', 0)
SPLIT_INDEX(s, '-', 3)
SPLIT_INDEX(s, 'xx', 1)
SPLIT_INDEX(s, ',', j)
SPLIT_INDEX(s, 'bc', 1)
s LIKE 'a%'
s LIKE '%b%'
s LIKE 'a_c%'
s LIKE 'a'
s LIKE ''
s LIKE '%'
s LIKE '_'
s LIKE '100%'
s LIKE '100\%%'
s LIKE 'a\b'
s LIKE 'a\\b'
s LIKE '100!%!_x' ESCAPE '!'
s LIKE '%!%%' ESCAPE '!'
s LIKE 'a\\b' ESCAPE '\'
s LIKE '%\_x' ESCAPE '\'
s LIKE '[a]'
s LIKE 'a.b.c'
s LIKE '%
%'
s NOT LIKE 'a%'
s NOT LIKE '%!_%' ESCAPE '!'
REGEXP(s, 'a+')
REGEXP(s, '^a')
REGEXP(s, '[0-9]+$')
REGEXP(s, '\d')
REGEXP(s, '\.')
REGEXP(s, '')
REGEXP(s, p)
REGEXP_EXTRACT(s, '([a-z]+)([0-9]+)')
REGEXP_EXTRACT(s, '([a-z]+)([0-9]+)', 0)
REGEXP_EXTRACT(s, '([a-z]+)([0-9]+)', 1)
REGEXP_EXTRACT(s, '([a-z]+)([0-9]+)', 2)
REGEXP_EXTRACT(s, '([a-z]+)', 5)
REGEXP_EXTRACT(s, '([a-z]+)', -1)
REGEXP_EXTRACT(s, 'a*', 0)
REGEXP_EXTRACT(s, '^$', 0)
REGEXP_EXTRACT(s, '\d+', 0)
REGEXP_EXTRACT(s, p)
REGEXP_EXTRACT(s, '(a)', tiny)
REGEXP_REPLACE(s, '[0-9]+', '#')
REGEXP_REPLACE(s, 'a', '')
REGEXP_REPLACE(s, '', '-')
REGEXP_REPLACE(s, 'x*', '-')
REGEXP_REPLACE(s, '\s+', ' ')
REGEXP_REPLACE(s, p, '#')
MD5(s)
MD5('')
SHA1(s)
SHA256(s)
TO_BASE64(s)
TO_BASE64('a longer text, of which the base64 would be broken in lines of seventy-six letters if it were MIME')
ENCODE(s, 'UTF-8')
ENCODE(s, 'UTF-16BE')
ENCODE(s, 'UTF-16')
ENCODE(s, 'US-ASCII')
ENCODE(s, 'ISO-8859-1')
DECODE(b, 'UTF-8')
DECODE(b, 'US-ASCII')
DECODE(b, 'ISO-8859-1')
DECODE(ENCODE(s, 'UTF-16LE'), 'UTF-16LE')
JSON_VALUE(s, '$.n')
JSON_VALUE(s, '$.a')
JSON_VALUE(s, '$.a.t')
JSON_VALUE(s, '$.a.t.x')
JSON_VALUE(s, '$.zzz')
JSON_VALUE(s, 'lax $.n')
JSON_VALUE(s, '$[''c d'']')
JSON_VALUE('{"x": 1e2}', '$.x')
JSON_VALUE('{"x": 1.10}', '$.x')
JSON_VALUE('{"x": 12345678901234567890}', '$.x')
JSON_VALUE('{"x": 1234567890.123456789012}', '$.x')
JSON_VALUE('{"x": "q\"\u00e4\n"}', '$.x')
JSON_VALUE('{"x": ""}', '$.x')
JSON_VALUE('{"x": 1, "x": 2}', '$.x')
JSON_VALUE('[{"x": 1}, {"x": 2}]', '$.x')
JSON_VALUE('{"x": {"y": 1}}', '$.x')
JSON_VALUE('{x: 1}', '$.x')
JSON_VALUE('{"x": 1} trailing', '$.x')
JSON_VALUE('', '$.x')
JSON_VALUE('{"a.b": 1}', '$[''a.b'']')
JSON_VALUE('{"ä": 5}', '$.ä')
JSON_VALUE('5', '$.x')
JSON_VALUE('null', '$.x')

-- == CAST of numbers and text
CAST(i AS TINYINT)
CAST(i AS SMALLINT)
CAST(i AS BIGINT)
CAST(i AS FLOAT)
CAST(i AS DOUBLE)
CAST(i AS DECIMAL(5, 2))
CAST(i AS DECIMAL(20, 2))
CAST(i AS STRING)
CAST(i AS BOOLEAN)
CAST(big AS INT)
CAST(big AS TINYINT)
CAST(big AS FLOAT)
CAST(big AS DOUBLE)
CAST(big AS DECIMAL(10, 0))
CAST(big AS STRING)
CAST(tiny AS STRING)
CAST(tiny AS INT)
CAST(f AS INT)
CAST(f AS BIGINT)
CAST(f AS TINYINT)
CAST(f AS DOUBLE)
CAST(f AS DECIMAL(10, 3))
CAST(f AS STRING)
CAST(f AS BOOLEAN)
CAST(d AS INT)
CAST(d AS BIGINT)
CAST(d AS SMALLINT)
CAST(d AS FLOAT)
CAST(d AS DECIMAL(10, 2))
CAST(d AS DECIMAL(38, 18))
CAST(d AS STRING)
CAST(d AS BOOLEAN)
CAST(m AS INT)
CAST(m AS BIGINT)
CAST(m AS TINYINT)
CAST(m AS DOUBLE)
CAST(m AS FLOAT)
CAST(m AS DECIMAL(10, 1))
CAST(m AS DECIMAL(10, 0))
CAST(m AS DECIMAL(4, 2))
CAST(m AS DECIMAL(20, 5))
CAST(m AS STRING)
CAST(m AS BOOLEAN)
CAST(n AS DECIMAL(10, 2))
CAST(n AS DECIMAL(38, 2))
CAST(n AS DOUBLE)
CAST(n AS BIGINT)
CAST(n AS STRING)
CAST(z AS STRING)
CAST(z AS INT)
CAST(flag AS STRING)
CAST(flag AS INT)
CAST(flag AS DOUBLE)
CAST(flag AS DECIMAL(5, 2))
CAST(u AS INT)
CAST(u AS BIGINT)
CAST(u AS TINYINT)
CAST(u AS DOUBLE)
CAST(u AS FLOAT)
CAST(u AS DECIMAL(10, 2))
CAST(u AS DECIMAL(38, 18))
CAST(u AS STRING)
TRY_CAST(u AS INT)
TRY_CAST(u AS BIGINT)
TRY_CAST(u AS TINYINT)
TRY_CAST(u AS SMALLINT)
TRY_CAST(u AS DOUBLE)
TRY_CAST(u AS FLOAT)
TRY_CAST(u AS DECIMAL(10, 2))
TRY_CAST(u AS DECIMAL(5, 0))
TRY_CAST(u AS DECIMAL(38, 18))
CAST(o AS BOOLEAN)
TRY_CAST(o AS BOOLEAN)
TRY_CAST(u AS BOOLEAN)
TRY_CAST(i AS DECIMAL(5, 2))
TRY_CAST(d AS DECIMAL(10, 2))
TRY_CAST(m AS DECIMAL(4, 2))
TRY_CAST(m AS STRING)
TRY_CAST(flag AS STRING)
TRY_CAST(flag AS INT)
CAST(s AS BYTES)
CAST(b AS STRING)
CAST(1 AS STRING)
CAST(1.50 AS STRING)
CAST(1E20 AS STRING)
CAST('2.5' AS DECIMAL(5, 1))
CAST('2.55' AS DECIMAL(5, 1))
CAST('-2.55' AS DECIMAL(5, 1))
CAST('abc' AS INT)
CAST(NULL AS STRING)
CAST(arr AS ARRAY<STRING>)
CAST(arr AS ARRAY<BIGINT>)
CAST(mp AS MAP<STRING, BIGINT>)
CAST(r AS ROW<a BIGINT, b ROW<c STRING>>)
CAST(ROW(1, 'x') AS ROW<a BIGINT, b STRING>)

-- == CAST of times
CAST(v AS TIMESTAMP(3))
CAST(v AS TIMESTAMP)
CAST(v AS TIMESTAMP(0))
CAST(v AS TIMESTAMP_LTZ(3))
CAST(v AS DATE)
TRY_CAST(v AS TIMESTAMP(3))
TRY_CAST(v AS TIMESTAMP(6))
TRY_CAST(v AS TIMESTAMP(0))
TRY_CAST(v AS TIMESTAMP_LTZ(3))
TRY_CAST(v AS DATE)
CAST(ts AS STRING)
CAST(ts2 AS STRING)
CAST(ts6 AS STRING)
CAST(ts0 AS STRING)
CAST(ltz AS STRING)
CAST(dt AS STRING)
CAST(ts AS DATE)
CAST(ts6 AS DATE)
CAST(ltz AS DATE)
CAST(dt AS TIMESTAMP(3))
CAST(dt AS TIMESTAMP_LTZ(3))
CAST(ts AS TIMESTAMP_LTZ(3))
CAST(ltz AS TIMESTAMP(3))
CAST(ts AS TIMESTAMP(6))
CAST(ts6 AS TIMESTAMP(3))
CAST(ts6 AS TIMESTAMP(0))
CAST(ts6 AS TIMESTAMP(1))
CAST(ts6 AS TIMESTAMP(5))
CAST(ts6 AS TIMESTAMP_LTZ(3))
TRY_CAST(ts AS STRING)
CAST(TIMESTAMP '2024-02-29 23:59:59.5' AS STRING)
CAST(TIMESTAMP '2024-02-29 23:59:59' AS STRING)
CAST(TIMESTAMP '2024-02-29 23:59:59.123456' AS STRING)

-- == times
EXTRACT(YEAR FROM ts)
EXTRACT(QUARTER FROM ts)
EXTRACT(MONTH FROM ts)
EXTRACT(WEEK FROM ts)
EXTRACT(DAY FROM ts)
EXTRACT(DOY FROM ts)
EXTRACT(DOW FROM ts)
EXTRACT(HOUR FROM ts)
EXTRACT(MINUTE FROM ts)
EXTRACT(SECOND FROM ts)
EXTRACT(YEAR FROM dt)
EXTRACT(QUARTER FROM dt)
EXTRACT(MONTH FROM dt)
EXTRACT(WEEK FROM dt)
EXTRACT(DAY FROM dt)
EXTRACT(DOY FROM dt)
EXTRACT(DOW FROM dt)
EXTRACT(YEAR FROM ltz)
EXTRACT(HOUR FROM ltz)
EXTRACT(SECOND FROM ltz)
EXTRACT(SECOND FROM ts6)
EXTRACT(MINUTE FROM ts6)
YEAR(ts)
YEAR(dt)
QUARTER(ts)
QUARTER(dt)
MONTH(ts)
MONTH(dt)
WEEK(ts)
WEEK(dt)
DAYOFMONTH(ts)
DAYOFMONTH(dt)
DAYOFWEEK(ts)
DAYOFWEEK(dt)
DAYOFYEAR(ts)
DAYOFYEAR(dt)
HOUR(ts)
HOUR(ltz)
MINUTE(ts)
SECOND(ts)
SECOND(ltz)
SECOND(ts6)
FLOOR(ts TO YEAR)
FLOOR(ts TO QUARTER)
FLOOR(ts TO MONTH)
FLOOR(ts TO DAY)
FLOOR(ts TO HOUR)
FLOOR(ts TO MINUTE)
FLOOR(ts TO SECOND)
FLOOR(ts6 TO SECOND)
FLOOR(ltz TO DAY)
FLOOR(ltz TO HOUR)
FLOOR(dt TO YEAR)
FLOOR(dt TO QUARTER)
FLOOR(dt TO MONTH)
FLOOR(dt TO DAY)
FLOOR(dt TO HOUR)
ts + INTERVAL '1' SECOND
ts + INTERVAL '0.5' SECOND
ts - INTERVAL '1' DAY
ts + INTERVAL '36' HOUR
ts - INTERVAL '90' MINUTE
ts + INTERVAL '1' MONTH
ts - INTERVAL '1' MONTH
ts + INTERVAL '1' YEAR
ts + INTERVAL '-1' MONTH
ts + INTERVAL '-1' DAY
ltz + INTERVAL '1' MONTH
ltz - INTERVAL '1' HOUR
ts6 + INTERVAL '1' DAY
ts0 + INTERVAL '1' SECOND
ts0 + INTERVAL '0.5' SECOND
ts0 + INTERVAL '1' MONTH
TIMESTAMPADD(DAY, 1, ts0)
COALESCE(ts0, TIMESTAMP '1970-01-01 00:00:00')
ts6 + INTERVAL '1' MONTH
INTERVAL '1' DAY + ts
TIMESTAMPADD(SECOND, 1, ts)
TIMESTAMPADD(MINUTE, -1, ts)
TIMESTAMPADD(HOUR, i, ts)
TIMESTAMPADD(HOUR, j, ts)
TIMESTAMPADD(DAY, j, ts)
TIMESTAMPADD(WEEK, j, ts)
TIMESTAMPADD(MONTH, j, ts)
TIMESTAMPADD(MONTH, 1, ts)
TIMESTAMPADD(QUARTER, j, ts)
TIMESTAMPADD(YEAR, j, ts)
TIMESTAMPADD(DAY, 1, ltz)
TIMESTAMPADD(DAY, big, ts)
TIMESTAMPADD(SECOND, 1, ts6)
TIMESTAMPDIFF(SECOND, ts, ts2)
TIMESTAMPDIFF(MINUTE, ts, ts2)
TIMESTAMPDIFF(HOUR, ts, ts2)
TIMESTAMPDIFF(DAY, ts, ts2)
TIMESTAMPDIFF(WEEK, ts, ts2)
TIMESTAMPDIFF(DAY, ts2, ts)
TIMESTAMPDIFF(SECOND, ltz, ts)
TIMESTAMPDIFF(SECOND, ts6, ts)
TIMESTAMPDIFF(SECOND, TIMESTAMP '1900-01-01 00:00:00', TIMESTAMP '2026-01-01 00:00:00')
DATE_FORMAT(ts, 'yyyy-MM-dd HH:mm:ss')
DATE_FORMAT(ts, 'yyyy-MM-dd HH:mm:ss.SSS')
DATE_FORMAT(ts, 'yyyyMMdd')
DATE_FORMAT(ts, 'dd/MM/yyyy')
DATE_FORMAT(ts, 'HH:mm')
DATE_FORMAT(ts, 'S')
DATE_FORMAT(ts, 'SS')
DATE_FORMAT(ts6, 'ss.SSSSSS')
DATE_FORMAT(ts6, 'ss.SSS')
DATE_FORMAT(ts, 'yyyy-MM-dd''T''HH:mm:ss')
DATE_FORMAT(ts, 'yyyy-MM-dd''T''HH:mm:ss''Z''')
DATE_FORMAT(ltz, 'yyyy-MM-dd HH:mm')
DATE_FORMAT(ltz, 'yyyy-MM-dd HH:mm:ss.SSS')
TO_DATE(v)
TO_TIMESTAMP(v)
TO_TIMESTAMP(v, 'yyyy-MM-dd HH:mm:ss')
TO_TIMESTAMP(v, 'yyyy-MM-dd')
TO_TIMESTAMP('2024-02-29 10:11:12.5', 'yyyy-MM-dd HH:mm:ss.S')
TO_TIMESTAMP('2024-02-29 10:11:12.500', 'yyyy-MM-dd HH:mm:ss.SSS')
TO_TIMESTAMP('2024-02-29 10:11:12.5', 'yyyy-MM-dd HH:mm:ss.SSS')
TO_TIMESTAMP('2024-02-29 10:11:12.123456', 'yyyy-MM-dd HH:mm:ss.SSSSSS')
TO_TIMESTAMP('20240229101112', 'yyyyMMddHHmmss')
TO_TIMESTAMP('2024-02-29T10:11:12', 'yyyy-MM-dd''T''HH:mm:ss')
TO_TIMESTAMP('2024-02-30 10:11:12', 'yyyy-MM-dd HH:mm:ss')
TO_TIMESTAMP('2024-02-29 24:00:00', 'yyyy-MM-dd HH:mm:ss')
TO_TIMESTAMP('2024-02-29 10:11', 'yyyy-MM-dd HH:mm')
TO_TIMESTAMP('2024-02-29 10', 'yyyy-MM-dd HH')
TO_TIMESTAMP('10:11', 'HH:mm')
TO_TIMESTAMP('2024', 'yyyy')
TO_TIMESTAMP('2024-02', 'yyyy-MM')
TO_TIMESTAMP('29/02/2024 10:11', 'dd/MM/yyyy HH:mm')
TO_TIMESTAMP(' 2024-02-29 10:11:12', 'yyyy-MM-dd HH:mm:ss')
TO_TIMESTAMP('2024-02-29 10:11:12 x', 'yyyy-MM-dd HH:mm:ss')
TO_TIMESTAMP('2024-2-9 1:2:3', 'yyyy-MM-dd HH:mm:ss')
TO_TIMESTAMP('99999-01-01', 'yyyy-MM-dd')
TO_TIMESTAMP(s, 'yyyy-MM-dd')
TO_TIMESTAMP_LTZ(big, 3)
TO_TIMESTAMP_LTZ(big, 0)
TO_TIMESTAMP_LTZ(i, 3)
TO_TIMESTAMP_LTZ(i, 0)
TO_TIMESTAMP_LTZ(1700000000123, 3)
FROM_UNIXTIME(i)
FROM_UNIXTIME(big / 1000)
FROM_UNIXTIME(big)
FROM_UNIXTIME(i, 'yyyy-MM-dd HH:mm')
FROM_UNIXTIME(i, 'yyyyMMdd')
DATE_FORMAT(CAST(v AS TIMESTAMP(3)), 'yyyy')

-- == arrays, maps and rows
arr[1]
arr[3]
arr[100]
arr[nth]
arr[-1]
arr[i]
CARDINALITY(arr)
CARDINALITY(mp)
ARRAY_CONTAINS(arr, 1)
ARRAY_CONTAINS(arr, 5)
ARRAY_CONTAINS(arr, i)
ARRAY[1, 2, 3]
ARRAY[i, j]
ARRAY[i, NULL]
ARRAY[i, big]
ARRAY[1, 2.5]
ARRAY[m, i]
ARRAY['a', 'abc']
ARRAY[1, 2, 3][2]
ARRAY[ARRAY[1], ARRAY[2, 3]]
mp['a']
mp['zzz']
mp['']
mp[k]
MAP_KEYS(MAP['a', 1])
MAP_VALUES(MAP['a', 1])
MAP['a', 1, 'b', 2]
MAP['a', 1, 'a', 2]
MAP['a', i, 'b', 2.5]
MAP[1, 'x'][1]
MAP[i, 'x'][1]
CARDINALITY(MAP_KEYS(mp))
CARDINALITY(MAP_VALUES(mp))
t.r.a
t.r.b.c
r.a
r.b
r.b.c
t.r.a + 1
ROW(1, 'x')
ROW(i, s)
ROW(i, s) = ROW(1, 'a')
