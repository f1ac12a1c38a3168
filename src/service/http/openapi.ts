/** The OpenAPI document of the API, made from the table of routes. */
import { z } from 'zod'
import { type Route, routes } from './routes.ts'
import { problemBody } from './schemas.ts'

/** Returns the document. `basePath`: path below which the API is mounted. */
export function openApi(basePath: string): object {
  const paths = new Map<string, [string, object][]>()
  for (const [operationId, route] of Object.entries(routes) as [string, Route][])
    for (const path of [route.path, ...(route.also ?? [])]) {
      const name = path.replaceAll(/:(\w+)(?:\{\.\+\})?/g, '{$1}')
      const made = operation(path === route.path ? operationId : undefined, path, route)
      paths.set(name, [...(paths.get(name) ?? []), [route.method.toLowerCase(), made]])
    }
  return {
    openapi: '3.1.0',
    info: { title: 'dramatis', version: '1', description: 'Teams of AI agents. A task is a run of a team.' },
    servers: [{ url: basePath === '' ? '/' : basePath }],
    paths: Object.fromEntries(Array.from(paths, ([name, methods]) => [name, Object.fromEntries(methods)])),
    components: {
      schemas: { Problem: schemaOf(problemBody, 'output') },
      securitySchemes: { bearer: { type: 'http', scheme: 'bearer' } },
    },
    security: [{ bearer: [] }],
  }
}

/** Statuses that routes have beside their own: all of them, those that need a right, and those that take a body. */
const OF_ALL = [422, 500]
const OF_RIGHTS = [401, 403, 429]
const OF_BODIES = [400, 408, 413, 415]

function operation(operationId: string | undefined, path: string, route: Route): object {
  const { summary, rights, query, body, answers, errors } = route
  const inPath = [...path.matchAll(/:(\w+)/g)].map(([, name]) => ({
    name,
    in: 'path',
    required: true,
    schema: { type: 'string' },
  }))
  const inQuery = Object.entries(query.shape).map(([name, schema]) => ({
    name,
    in: 'query',
    required: false,
    schema: schemaOf(schema as z.ZodType, 'input'),
  }))
  const statuses = [
    ...new Set([...errors, ...OF_ALL, ...(rights.length > 0 ? OF_RIGHTS : []), ...(body ? OF_BODIES : [])]),
  ]
  return {
    ...(operationId !== undefined && { operationId }),
    summary,
    ...(rights.length > 0 && { description: `Takes the right ${rights.join(' or ')}.` }),
    ...(rights.length === 0 && { security: [] }),
    parameters: [...inPath, ...inQuery],
    ...(body && {
      requestBody: { required: true, content: { 'application/json': { schema: schemaOf(body, 'input') } } },
    }),
    responses: Object.fromEntries([
      ...Object.entries(answers).map(([status, { description, json, types = [] }]) => {
        const contents = [
          ...(json ? [['application/json', { schema: schemaOf(json, 'output') }]] : []),
          ...types.map((type) => [type, { schema: { type: 'string' } }]),
        ]
        return [status, { description, ...(contents.length > 0 && { content: Object.fromEntries(contents) }) }]
      }),
      ...statuses
        .filter((status) => !(status in answers))
        .map((status) => [status, { description: 'a problem', content: route.isOpenAi ? OPENAI_ERROR : PROBLEM }]),
    ]),
  }
}

const OPENAI_ERROR = {
  'application/json': { schema: { type: 'object', properties: { error: { type: 'object' } }, required: ['error'] } },
}
const PROBLEM = { 'application/problem+json': { schema: { $ref: '#/components/schemas/Problem' } } }

function schemaOf(schema: z.ZodType, io: 'input' | 'output'): object {
  const { $schema: _draft, ...rest } = z.toJSONSchema(schema, { io, unrepresentable: 'any' })
  return rest
}
