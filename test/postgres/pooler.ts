/** PgBouncer before a server of a test. */
import { spawn } from 'node:child_process'
import { chmodSync, existsSync, writeFileSync } from 'node:fs'
import { delimiter, join } from 'node:path'
import type { Test } from 'tap'
import { freePort, otherUser, type PostgresServer, reached } from '../../examples/cluster-demo/postgres-server.ts'

/** The program PgBouncer, or nothing. */
export function poolerFile(): string | undefined {
  const folders = ['/usr/sbin', ...(process.env.PATH ?? '').split(delimiter)]
  return folders.map((folder) => join(folder, 'pgbouncer')).find((file) => existsSync(file))
}

/** Runs PgBouncer before a server, until the test has ended. Returns its URL. */
export async function poolerIn(t: Test, mode: string, server: PostgresServer): Promise<string> {
  const [port, file] = [await freePort(), join(server.folder, `${mode}.ini`)]
  const settings = [
    '[databases]',
    `postgres = host=127.0.0.1 port=${server.port} user=dramatis`,
    '[pgbouncer]',
    'auth_type = any',
  ]
  const own = [`pool_mode = ${mode}`, 'listen_addr = 127.0.0.1', `listen_port = ${port}`, 'unix_socket_dir =']
  const passed = ['ignore_startup_parameters = extra_float_digits']
  writeFileSync(file, [...settings, ...own, ...passed].join('\n'))
  chmodSync(file, 0o644)
  const user = process.getuid?.() === 0 ? otherUser() : undefined
  const pooler = spawn(poolerFile()!, [file], { ...user, stdio: 'ignore' })
  t.teardown(() => pooler.kill('SIGKILL'))
  const url = `postgres://dramatis@127.0.0.1:${port}/postgres`
  await reached(url, pooler)
  return url
}
