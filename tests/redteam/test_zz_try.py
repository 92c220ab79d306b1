import time
from tests.redteam.conftest import world
from tests.redteam.playing import playing, findings
from django_copilot.redteam.client.always import play_always
def test_it(world, settings):
    with playing(world, settings) as client:
        import cProfile; t=time.time(); play_always(client); print("TIME", time.time()-t, client.sender.sent)
        print(world.report.not_run)
        for o, f in world.report.examples.items():
            for e in f: print(o, e)
        from django_copilot.redteam.executions import check_executions
        check_executions(world, client.sender.ledger)
        print(findings(client))
        c={}
        for d in client.sender.ledger.decisions: print(d.verb, d.before, d.after, d.status, d.case[-90:])
