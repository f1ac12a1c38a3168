/** The tables. One row of `shard` is the fence of one log: each append moves it, and only the last claim can. */
import type { ClientBase } from 'pg'
import { ClusterVersionError } from '../shared/errors.ts'

/** Class of the advisory locks: one for each living process, and number 0 for who changes the schema. */
export const LOCK_CLASS = 0x6472616d

/** Each brings the schema from the version of its index to the next one. What stands is never changed. */
const MIGRATIONS: readonly string[] = [
  `
  -- One row for each timeline of the database, written by the first process that comes to it.
  create table dramatis.epoch (
    cluster text not null, timeline int not null, id uuid not null default gen_random_uuid(),
    at timestamptz not null default clock_timestamp(),
    sync boolean not null, -- all who wrote in it waited for a standby
    primary key (cluster, timeline)
  );
  create table dramatis.cluster (cluster text primary key, shards int not null);
  create table dramatis.member (
    id uuid primary key, cluster text not null,
    serial int not null, -- of its advisory lock; drawn by the process, since a sequence may step back in a failover
    host text not null, pid int not null, address text, version text,
    seen timestamptz not null default clock_timestamp()
  ) with (fillfactor = 50);
  create table dramatis.shard (
    cluster text not null, shard int not null,
    incarnation int not null default 0, -- number of the last open
    claim uuid,                         -- of the last open: the fence. A database that lost seconds gives a number twice
    timeline int not null default 0,    -- in which its owner last claimed it, or compared it with what it remembers
    high bigint not null default 0,     -- the highest position that anybody remembers from the timeline before
    position bigint not null default 0, -- where the next chunk begins, in bytes
    first bigint not null default 0,    -- what stood before was given up
    last_seq bigint not null default 0, -- number of the last entry
    owner uuid,
    primary key (cluster, shard)
  ) with (fillfactor = 20);
  create table dramatis.chunk (
    cluster text not null, shard int not null, position bigint not null,
    incarnation int not null, claim uuid not null, bytes bytea not null,
    primary key (cluster, shard, position)
  );
  alter table dramatis.chunk alter bytes set storage external; -- most of it is compressed or small
  create table dramatis.task (
    cluster text not null, id text not null, shard int not null, hash text not null,
    n bigint generated always as identity, at timestamptz not null default clock_timestamp(),
    body bytea,         -- until it is settled
    given uuid,         -- the claim that has been given it
    status text, result bytea, settled timestamptz,
    primary key (cluster, id)
  );
  create index task_open on dramatis.task (cluster, shard, n) where settled is null;
  create index task_settled on dramatis.task (settled) where settled is not null;
  `,
  `
  alter table dramatis.shard
    add cut int,               -- timeline in which it was last claimed by somebody who could not know what was lost
    add checkpoint uuid,       -- the one that counts
    add checkpoint_at bigint;  -- position of the last block that it covers
  create table dramatis.checkpoint (
    cluster text not null, shard int not null, made uuid not null, n int not null, bytes bytea not null,
    primary key (cluster, shard, made, n)
  );
  alter table dramatis.checkpoint alter bytes set storage external;
  `,
  `
  -- The id first: a plan that was made while the table was empty reads no other tasks of the cluster.
  alter table dramatis.task drop constraint task_pkey, add primary key (id, cluster);
  -- Whoever may connect may listen: notices have outcomes, so only who may read the tables knows where.
  alter table dramatis.cluster add channel uuid not null default gen_random_uuid();
  `,
]

/**
 * Makes what is missing. Any number of processes may do so at once.
 *
 * @throws ClusterVersionError
 */
export async function migrate(session: ClientBase): Promise<void> {
  await session.query('begin')
  try {
    await session.query(`select pg_advisory_xact_lock(${LOCK_CLASS}, 0)`)
    await session.query('create schema if not exists dramatis')
    await session.query('create table if not exists dramatis.schema_version (version int primary key)')
    const found = await session.query<{ version: number }>(
      'select coalesce(max(version), 0)::int as version from dramatis.schema_version',
    )
    const version = found.rows[0]?.version ?? 0
    if (version > MIGRATIONS.length) throw tooNew(version)
    for (const [from, statements] of MIGRATIONS.entries()) {
      if (from < version) continue
      await session.query(statements)
      await session.query('insert into dramatis.schema_version values ($1)', [from + 1])
    }
    await session.query('commit')
  } catch (error) {
    await session.query('rollback').catch(() => {})
    throw error
  }
}

function tooNew(version: number): ClusterVersionError {
  const text =
    `the tables of the cluster have version ${version}, and this process knows up to ${MIGRATIONS.length}: ` +
    'install the version of dramatis that the other processes run, or a later one.'
  return new ClusterVersionError(text, { got: version, accepted: MIGRATIONS.length })
}
