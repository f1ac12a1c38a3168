/** Stands where `require('dramatis')` cannot work: in Node before 20.19 and 22.12, and in Jest without ES modules. */
throw Object.assign(
  new Error(
    `dramatis is an ES module, and require() of one does not work here (Node ${process.version}). Node can from 20.19 and 22.12 on. Else write: const { createTeam } = await import('dramatis'). In Jest, run it with NODE_OPTIONS=--experimental-vm-modules and import dramatis.`,
  ),
  { code: 'ERR_REQUIRE_ESM' },
)
