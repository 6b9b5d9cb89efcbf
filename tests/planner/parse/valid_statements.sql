select 1
select a, b as c, t.d "e", 'x' as f from t as u where x is not null
select distinct a from t where exists (select 1 from u where u.x = t.x) and a in (select b from c)
select a, count(*) from t where x = ? group by 1 having count(*) > ? order by 2 desc nulls last, a limit ? offset ?
select * from a offset 2 rows fetch next 3 rows only
select 1 from t fetch first row only
select * from a limit 2, 3
select all a from t union all select b from u intersect select c except all select d
(select 1) union (select 2) order by 1 limit 3
with a(x) as materialized (select 1), b as (select x from a) select * from a natural join b
select * from a left outer join b using (x, y) cross join c, d full join e on a.x = e.x
select * from (a join b on true) inner join (select 1) c on 1 = 1
select * from unnest(array[1, 2]) with ordinality as t(w, o), (values (1, 2), (3, 4)) v(a, b)
select w from lines, unnest(regexp_split_to_array(lower(line), '[^a-z]+')) as t(w)
select * from read_csv('x.csv', header = true, columns = {'a': 'INTEGER'}, names := ['a', 'b'])
select v from table(generate_series(1, 10, step => 2)) as t(v) join table(csv_file(path => 'x.csv')) c on true
values (1, 'a'), (?, null)
table t
select case a when 1 then 2 else 3 end, case when a then b end, coalesce(a, b), nullif(a, b), if(a, b, c)
select count(*) filter (where x), count(distinct a, b), sum(all c), string_agg(a, ',') from t
select string_agg(a, ',' order by b desc) filter (where c), percentile_cont(0.5) within group (order by a) from t
select cast(a as decimal(10, 2)), a::int array, a::timestamp with time zone at time zone 'UTC', b::row(x int, y varchar[])
select extract(year from a), substring(a from 2 for 3), substring(a for 3), substring(a, 1, 2), position('a' in b)
select trim(a), trim(both 'x' from y), trim(leading from y), trim(y, 'x'), overlay(a placing b from 1 for 2)
select current_date, current_timestamp, now(), localtimestamp, left(a, 1), right(a, 2), replace(a, b, c), truncate(a, 2)
select date '2020-01-01', time '10:00', timestamp '2020-01-01 10:00:00', interval '1' day, interval '1:30' hour to minute
select row(1, 2), (1, 2) in ((1, 2)), a[1], array[1, 2], [1, 2], -a, +a, not a, a || b, a <> b, 1.5e3, true, null
select (a + b) - c * d / e % f, a < b or a <= b and a > b or a >= b, (a).b
select a between 1 and 2, a not between symmetric 1 and 2, a like b escape '!', a not like b, a ilike b, a in (1, ?)
select a is distinct from b, a is not distinct from b, a is true, a is not false, a is unknown, a isnull, a notnull
select "A"."b c" from "T" "A" where "A"."from" = 'it''s'
select a /* comment */ from t -- another
create mapping m type IMap
create or replace external mapping m external name a.b (k int external name "__key", v row(x decimal, y varchar[])) connector type IMap object type o options ('a' = 'b', 'c' = '')
create mapping if not exists public.m ("from" timestamp without time zone, b map(varchar, double precision)) type "IMap" options ()
drop mapping if exists m
drop external mapping m
create view v as select 1
create or replace temp view v (a, b) as with x as (select 1) select 1, 2
drop view if exists v
create index if not exists i on m (a, b) type hash
create index i on m using hash (a)
drop index i on m
insert into t values (1, 2)
insert into t (a, b) select a, b from u where c = ?
sink into public.t (a) values (?), (?)
insert into t (select 1)
update t set a = a + ?, b = case when a in (1, 2) then 1 else 2 end where c = ?
update t as x set "from" = (select max(a) from u)
delete from t
delete from t x where x.a = 1 and not exists (select 1)
select * from t, lateral (select u.a from u where u.b = t.b) x
select * from t left join lateral generate_series(1, t.a) with ordinality as g(v, n) on true
select a = any (select 1), b > all (select 2), c <> all (d) from t
with recursive r(n) as (select 1 union all select n + 1 from r where n < 9) select * from r
explain select 1
explain plan for insert into t values (1)
explain (dag, format dot) update t set a = 1
show mappings
show all
show plan_cache_size
set a = 'b'
set time zone 'UTC'
set a to -1.5
reset a
SELECT 1;
SELECT a[1:2], a[:2], a[1:], (r).f, (r).* FROM t
SELECT j -> 'a' ->> 0, j IS JSON OBJECT, s ~ 'x', s ~* 'x', s SIMILAR TO 'a%' ESCAPE '!', TRY_CAST(s AS INTEGER) FROM t
SELECT (a, b) OVERLAPS (c, d), 2 ^ 3, 7 // 2, a & b, a | b, a << 1, a >> 1, ~a, l @> m, l && m FROM t
SELECT JSON_VALUE(j, '$.a' RETURNING BIGINT DEFAULT 1 ON EMPTY NULL ON ERROR), JSON_OBJECT(KEY 'a' VALUE 1, 'b' : 2 ABSENT ON NULL), MAP['a', 1], X'ff', E'a\n'
select a, sum(b) filter (where c > 0) over (partition by a, c order by d desc nulls last rows between 1 preceding and ? following exclude ties) from t
select lag(a ignore nulls) over w, first_value(a) respect nulls over (w rows current row) from t qualify row_number() over w = 1 window w as (partition by a), v as (w order by b)
select a, grouping(a, b) from t group by rollup (a, b), cube (a, (b, c)), grouping sets ((a, b), (), a, grouping sets (b))
select distinct on (a, b) c from t order by a, b
select a, count(*) from t group by all order by all
select t.* exclude (a) replace (b + 1 as b), * exclude c from t
select try_cast(a as int)
select a ^ 2
select a // 2
select a & 1, ~a
select a -> 'b'
select a ~ 'b'
select a similar to 'b'
select a[1:2]
select unnest(a), 1 + unnest(array[1, 2]) from t
select array(select a from t order by b)
SELECT * FROM TABLE(TUMBLE(TABLE t, DESCRIPTOR(ts), INTERVAL '10' SECOND, offset => INTERVAL '1' SECOND)) AS w (a, b)
SELECT * FROM SESSION(TABLE(IMPOSE_ORDER(TABLE public."t x", DESCRIPTOR(ts), 5)) PARTITION BY a, f(b, c), DESCRIPTOR(ts), gap => 5) s
SELECT * FROM a JOIN HOP(input => (SELECT 1), time_col => DESCRIPTOR(x.ts), slide => 1, size => 2) h ON a.k = h.k
SELECT session, tumble, hop, descriptor, "offset" FROM session WHERE tumble > 1
CREATE MAPPING m (ts TIMESTAMP, WATERMARK FOR ts AS ts - INTERVAL '5' SECOND, watermark INT) TYPE File OPTIONS ('path'='x')
CREATE MAPPING m (WATERMARK FOR "t s" AS ("t s" - 5)) TYPE File OPTIONS ('path'='x')
select o.id from orders o left join rates for system_time as of o.ts as r on o.currency = r.currency
select a.id from t a asof left join u b on a.k = b.k and a.ts >= b.ts
select a.id from t a asof join u b using (k, ts)
select a.id from t a join u b on a.k = b.k options ('allowUnboundedState' = 'true')
from t a join u b using (k) select a.x where a.x > 1
select columns(lambda c: c like 'a%') + 1, f(*columns('x')), * rename (a as b), * like 'a%' from t
select a from t union all by name select b from u
select * from a semi join b using (k) anti join c on a.x = c.x positional join d
select {'a': 1, b: {"c": 2}}.b.c, map {'a': 1}['a'], map {}, struct_pack(a := 1), s['a'], t.s.a from t
select * from t pivot (sum(a) as s, max(b) for c in (1 as x, 2) d in ('y') group by e) as p
pivot t on (a, b), c in (1, 2) using sum(d) group by e order by e limit 50%
unpivot t on a, columns('b') into name n value v
select * from t unpivot include nulls ((v, w) for n in ((a, b) as x, (c, d))) as u (p, q)
select a from t tablesample bernoulli (10 percent) repeatable (3), u tablesample 5 where a > 1
select a from t using sample 10% (reservoir, 3) limit 10 percent offset 2
select [x + 1 for x in l if x > 1], a <@ b, a ^@ 'x', j #> '{a}', j #>> '{a,0}', a glob 'x*' from t
