/** What a database can come to under a cluster. */
import { setTimeout as sleep } from 'node:timers/promises'
import type { PostgresServer } from '../../examples/cluster-demo/postgres-server.ts'
import type { Fault } from '../cluster/nemesis.ts'

/** What it says when a table cannot grow. Where its own log cannot, it goes down: that is the restart. */
const FILL = `create function dramatis.full() returns trigger language plpgsql as $$
  begin raise exception 'could not extend file: No space left on device' using errcode = 'disk_full'; end $$;
  create trigger "full" before insert on dramatis.chunk execute function dramatis.full();
  create trigger "full" before insert on dramatis.task execute function dramatis.full()`
const EMPTY = 'drop function dramatis.full() cascade'

export function databaseFaults(server: PostgresServer, fullMs: number): readonly Fault[] {
  return [
    {
      name: 'database',
      async act() {
        await server.kill()
        await server.run()
      },
    },
    {
      name: 'disk full',
      async act(_, random) {
        await server.query(FILL)
        await sleep(fullMs * (0.5 + random()))
        await server.query(EMPTY)
      },
    },
  ]
}
