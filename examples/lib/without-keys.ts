/** The environment without what examples take keys, models, services and modes from: then each plays its session. */
export function withoutKeys(env: NodeJS.ProcessEnv): NodeJS.ProcessEnv {
  const own = /_KEY$|_BASE_URL$|^SEARXNG_URL$|^FLOW_MODE$/
  return Object.fromEntries(Object.entries(env).filter(([name]) => !own.test(name)))
}
