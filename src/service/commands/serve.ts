/** `dramatis serve [name=]<team file> ...`: teams over HTTP, until a signal ends the process. */
import { readFileSync } from 'node:fs'
import { isIP } from 'node:net'
import { basename, extname, resolve } from 'node:path'
import { createTeam, type PriceList, type Team } from '../../index.ts'
import { inFlowMode } from '../../protocols/flow-mode.ts'
import type { ClusterOptions, ClusterTeam } from '../../runtime/cluster/cluster-team.ts'
import { lineLogger } from '../../runtime/logging/logger.ts'
import { environment } from '../../shared/environment.ts'
import { ConfigurationError, describe } from '../../shared/errors.ts'
import { own } from '../../shared/values.ts'
import {
  type Authorize,
  bearerToken,
  type Caller,
  type HttpApiOptions,
  type HttpLimits,
  httpApi,
} from '../api/index.ts'
import { listen } from '../api/server.ts'
import { RIGHTS } from '../http/schemas.ts'
import { sdk } from '../mcp/sdk.ts'
import { type ClusterPlace, clusterUrlOf } from '../shared/cluster-url.ts'
import { type Closing, listenForClosing } from '../shared/code-watch.ts'
import { EXIT } from '../shared/failure.ts'
import { loadEnv, loadTeamFile } from '../shared/load-team-file.ts'
import type { Surroundings } from './run.ts'

export interface ServeFlags extends ClusterPlace {
  port: number
  host: string
  tokenEnv?: string
  allowedHost?: string[]
  allowedOrigin?: string[]
  price?: string
  /** Lets the token, or without one a client of MCP or A2A, approve calls of tools in the tasks that it begins. */
  approveOwn?: boolean
  /** Serves the teams by MCP, too. */
  mcp?: boolean
  /** Serves the teams by A2A, too. */
  a2a?: boolean
  /** Origins whose URLs may be told how tasks of A2A stand; 'public': any. */
  a2aPush?: string[]
  /** Time for open tasks at the end, in ms. */
  drain: number
  clusterName?: string
  clusterShards?: number
  clusterAddress?: string
  clusterSecretEnv?: string
}

export const EVERYTHING: Caller['may'] = RIGHTS
/** Bounds for the one caller that there is: the teams have bounds of their own. */
export const LIMITS: Partial<HttpLimits> = {
  bodyBytes: 2 ** 26,
  postsPerSecond: 100,
  burst: 200,
  getsPerSecond: 500,
  tasksPerCaller: 1_000,
  streamsPerCaller: 256,
}
const NAMED = /^([\w.-]{1,64})=(.+)$/

/**
 * Serves the teams and resolves to the exit code when a signal has ended it. Rejects for everything that keeps it from
 * beginning. `closing`: what ends it, by default SIGINT and SIGTERM.
 */
export async function serve(
  files: readonly string[],
  flags: ServeFlags,
  { stderr, folder }: Surroundings,
  closing: Closing = listenForClosing(),
): Promise<number> {
  loadEnv(folder)
  const say = (text: string) => void stderr.write(text)
  const doors = doorsOf(flags)
  const isOwnMachine = flags.tokenEnv === undefined
  const approveOwn = isOwnMachine || flags.approveOwn === true
  const prices = flags.price === undefined ? undefined : readPrices(flags.price, folder)
  const list = isList(prices) ? prices : undefined
  if (flags.mcp) await sdk() // a package that is missing is said before anything begins
  const teams = new Map<string, Team | ClusterTeam<Team>>()
  const teamFiles = namedFiles(files)
  try {
    for (const [name, file] of teamFiles) {
      const definition = inFlowMode(await loadTeamFile(file, folder), environment().FLOW_MODE)
      const ofTeam = definition.prices ?? list
      const options = {
        ...definition,
        logger: definition.logger ?? lineLogger(say),
        ...(ofTeam && { prices: ofTeam }),
      }
      const cluster = clusterOf(flags, name, files)
      teams.set(name, cluster ? createTeam({ ...options, cluster }) : createTeam(options))
    }
    const all = [...teams.values()]
    const clusters = all.flatMap((team) => ('door' in team ? [team] : []))
    await Promise.all(all.map((team) => 'door' in team || team.start()))
    const api = httpApi({
      teams: Object.fromEntries(teams),
      ...doors,
      approveOwn,
      teamFiles: Object.fromEntries(teamFiles),
      dashboard: true,
      mcp: flags.mcp === true,
      a2a: flags.a2a === true && {
        ...(isOwnMachine && { securitySchemes: {} }),
        push: flags.a2aPush?.includes('public') || (flags.a2aPush ?? false),
      },
      limits: LIMITS,
      ...(prices && !isList(prices) && { prices }),
      logger: lineLogger(say),
    })
    const server = await listen(api, flags)
    const drained: Promise<void>[] = []
    try {
      for (const team of clusters) drained.push((await joined(team, flags, server.url)).drained)
    } catch (error) {
      await server.close(0)
      throw error
    }
    say(`dramatis serves ${[...teams.keys()].join(', ')} at ${server.url}\n`)
    say(`The dashboard is at ${server.url}/${flags.tokenEnv === undefined ? '' : ' and asks for the token'}\n`)
    if (flags.mcp) say(`By MCP at ${server.url}/mcp\n`)
    if (flags.a2a) for (const name of teams.keys()) say(`By A2A at ${server.url}/a2a/${name}\n`)
    say(approvalWords(approveOwn, flags))
    if (isOwnMachine) say('Open it in a browser, and give the team a task. Ctrl-C ends the service.\n')
    await Promise.race([closing.begun, ...drained])
    say(`Closing: open tasks have ${flags.drain} ms. A second signal leaves at once.\n`)
    await server.close(flags.drain)
    return EXIT.done
  } finally {
    closing.stop()
    await Promise.all(Array.from(teams.values(), (team) => team.close()))
  }
}

/** Returns the files by the names of their teams. @throws ConfigurationError for two with one name. */
export function namedFiles(files: readonly string[]): Map<string, string> {
  const byName = new Map<string, string>()
  for (const given of files) {
    const [, name = basename(given, extname(given)), file = given] = NAMED.exec(given) ?? []
    if (byName.has(name)) throw named(given, name)
    byName.set(name, file)
  }
  return byName
}

/** @throws ConfigurationError */
function clusterOf(flags: ServeFlags, team: string, files: readonly string[]): ClusterOptions | undefined {
  const { clusterName, clusterShards, clusterAddress, clusterSecretEnv, host } = flags
  const url = clusterUrlOf(flags)
  if (url === undefined) {
    const given = {
      '--cluster-name': clusterName,
      '--cluster-shards': clusterShards,
      '--cluster-address': clusterAddress,
      '--cluster-secret-env': clusterSecretEnv,
    }
    const [flag] = Object.entries(given).find(([, value]) => value !== undefined) ?? []
    if (flag === undefined) return undefined
    throw new ConfigurationError(`${flag} without --cluster-env: say which database the processes share.`, {
      path: 'cluster.url',
    })
  }
  if (clusterName !== undefined && files.length > 1)
    throw new ConfigurationError(
      '--cluster-name: several teams cannot have one name. Leave it out: each has its own.',
      {
        path: 'cluster.name',
      },
    )
  if (clusterAddress === undefined && !isLoopback(host)) {
    const text = `--cluster with --host ${host}: say with --cluster-address under which URL the other processes reach this one.`
    throw new ConfigurationError(text, { path: 'cluster.address', host })
  }
  if (clusterSecretEnv === undefined && !isLoopback(host)) {
    const text = `--cluster with --host ${host}: name with --cluster-secret-env a variable with a secret of at least 32 characters, by which the processes believe each other.`
    throw new ConfigurationError(text, { path: 'cluster.secretEnv', host })
  }
  return {
    url,
    name: clusterName ?? team,
    ...(clusterShards !== undefined && { shards: clusterShards }),
    ...(clusterAddress !== undefined && { address: clusterAddress }),
    ...(clusterSecretEnv !== undefined && { secretEnv: clusterSecretEnv }),
  }
}

/** Joins the cluster. `drained` resolves when somebody asks this process to give its shards over. */
async function joined(team: ClusterTeam<Team>, { host }: ServeFlags, url: string): Promise<{ drained: Promise<void> }> {
  if (isLoopback(host)) team.reachedAt(url)
  const { answers } = await team.door()
  const drained = new Promise<void>((resolve) => {
    answers.set('drain', () => resolve())
  })
  await team.start()
  return { drained }
}

function approvalWords(approveOwn: boolean, { tokenEnv, mcp, a2a, approveOwn: isAsked }: ServeFlags): string {
  if (!approveOwn)
    return 'Who begins a task cannot approve the calls of its tools (approveOwn is off; --approve-own turns it on).\n'
  const why = tokenEnv === undefined ? "without a token this is one person's own machine" : '--approve-own'
  const programs = [...(mcp ? ['MCP'] : []), ...(a2a ? ['A2A'] : [])].join(' and ')
  const but = programs && !isAsked ? `; by ${programs} it may not: --approve-own turns that on` : ''
  return `Who begins a task may approve the calls of its tools, too (approveOwn is on: ${why})${but}.\n`
}

/** @throws ConfigurationError where everybody in the network would be. */
function doorsOf({ host, tokenEnv, allowedHost, allowedOrigin, approveOwn }: ServeFlags): {
  authorize: Authorize
  allowedHosts?: string[]
  allowedOrigins?: string[]
} {
  const hosts = allowedHost ?? (tokenEnv === undefined || isLoopback(host) ? undefined : ['*'])
  const doors = {
    ...(hosts && { allowedHosts: hosts }),
    ...(allowedOrigin && { allowedOrigins: allowedOrigin }),
  }
  if (tokenEnv === undefined) {
    if (!isLoopback(host)) {
      const text = `--host ${host}: without a token everybody who reaches that address could use the teams. Put a token into an environment variable, and name it with --token-env.`
      throw new ConfigurationError(text, { path: 'tokenEnv', host })
    }
    // A client of MCP or A2A is a program, and not the person at the dashboard, though neither has a token.
    const person: Caller = { id: 'local', may: EVERYTHING }
    const authorize: Authorize = ({ url }) => {
      const [, id] = /^\/(mcp|a2a)(?:\/|$)/.exec(new URL(url).pathname) ?? []
      return id === undefined ? person : { id, may: approveOwn ? ['run', 'approve'] : ['run'] }
    }
    return { ...doors, authorize }
  }
  const token = own(environment(), tokenEnv)
  if (!token)
    throw new ConfigurationError(`--token-env ${tokenEnv}: there is no such environment variable, or it is empty.`, {
      path: 'tokenEnv',
    })
  return { ...doors, authorize: bearerToken(token, { id: 'token', may: EVERYTHING }) }
}

/** Prices of the teams, or of the estimates over HTTP alone. */
type GivenPrices = PriceList | NonNullable<HttpApiOptions['prices']>

const isList = (given: GivenPrices | undefined): given is PriceList =>
  given !== undefined && typeof given.currency === 'string'

/** @throws ConfigurationError for a file that cannot be read, or is no JSON. */
function readPrices(file: string, folder: string): GivenPrices {
  try {
    return JSON.parse(readFileSync(resolve(folder, file), 'utf8'))
  } catch (error) {
    throw new ConfigurationError(`--price ${file}: it cannot be read: ${describe(error)}.`, { path: 'prices' }, error)
  }
}

const isLoopback = (host: string): boolean =>
  host === 'localhost' || host === '::1' || (isIP(host) === 4 && host.startsWith('127.'))

function named(given: string, name: string): ConfigurationError {
  const text = `Two teams would have the name "${name}". Give one of them another: other=${given.replace(NAMED, '$2')}`
  return new ConfigurationError(text, { path: 'teams', name })
}
