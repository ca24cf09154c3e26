%% The kernel scenarios in Erlang: erl -noshell -run actors main SCENARIO
%% Every event carries a number; receivers check them, one by one or in sum.
-module(actors).
-export([main/1]).

main([Scenario]) ->
    put(scenario, Scenario),
    try run(Scenario) of
        _ -> halt(0)
    catch
        Class:Reason:Stack ->
            io:format(standard_error, "erlang ~s: ~p ~p ~p~n",
                [Scenario, Class, Reason, Stack]),
            halt(1)
    end.

row(Metric, Value, Unit) ->
    io:format("erlang\t~s\t~s\t~.3f\t~s\n",
        [get(scenario), Metric, float(Value), Unit]).

now_ns() -> erlang:monotonic_time(nanosecond).

timed(F) ->
    T = now_ns(),
    F(),
    now_ns() - T.

run("pingpong-alias") ->
    pingpong(2000000, ping, pong);
run("pingpong-id") ->
    pingpong_pid(4000000);
run("ring-1") ->
    ring(10000, 1, 200);
run("ring-100") ->
    ring(10000, 100, 3);
run("many-to-one-8") ->
    Senders = 8,
    Each = 500000,
    Me = self(),
    register(sink, spawn(fun() ->
        receive go -> ok end,
        count(Senders * Each, 0, Senders * Each * (Each - 1) div 2),
        Me ! done
    end)),
    T = timed(fun() ->
        [spawn(fun() -> blast(0, Each) end) || _ <- lists:seq(1, Senders)],
        sink ! go,
        receive done -> ok end
    end),
    row("ns_per_event", T / (Senders * Each), "ns");
run("spawn-stop") ->
    N = 100000,
    Me = self(),
    T = timed(fun() ->
        L = [spawn_idle(I) || I <- lists:seq(1, N)],
        [P ! {stop, Me} || P <- L],
        drain(N)
    end),
    row("ns_per_session", T / N, "ns");
run("idle-session") ->
    N = 100000,
    erlang:garbage_collect(),
    M0 = erlang:memory(total),
    [spawn_idle(I) || I <- lists:seq(1, N)],
    row("bytes_per_session", (erlang:memory(total) - M0) / N, "bytes");
run("timers-1m") ->
    N = 1000000,
    Me = self(),
    rand:seed(exsss, 1),
    Far = [100000 + rand:uniform(900000) || _ <- lists:seq(1, N)],
    T0 = now_ns(),
    Refs = [erlang:send_after(X, Me, tick) || X <- Far],
    row("insert_ns", (now_ns() - T0) / N, "ns"),
    Shuffled = [R || {_, R} <- lists:sort([{rand:uniform(), R} || R <- Refs])],
    T1 = timed(fun() -> [erlang:cancel_timer(R) || R <- Shuffled] end),
    row("cancel_ns", T1 / N, "ns"),
    Near = [rand:uniform(20) || _ <- lists:seq(1, N)],
    T2 = timed(fun() ->
        [erlang:send_after(X, Me, tick) || X <- Near],
        ticks(N)
    end),
    row("insert_and_fire_ns", T2 / N, "ns").

%% Two processes answer each other by registered name, N events.
pingpong(N, Ping, Pong) ->
    Me = self(),
    register(Ping, spawn(fun() -> bounce(Pong, Me, N) end)),
    register(Pong, spawn(fun() -> bounce(Ping, Me, N) end)),
    T = timed(fun() -> Ping ! {m, 0}, receive done -> ok end end),
    row("ns_per_event", T / N, "ns").

bounce(To, Main, N) ->
    receive
        {m, X} when X =:= N - 1 -> Main ! done;
        {m, X} -> To ! {m, X + 1}, bounce(To, Main, N)
    end.

pingpong_pid(N) ->
    Me = self(),
    Ping = spawn(fun() -> receive {peer, P} -> bounce(P, Me, N) end end),
    Pong = spawn(fun() -> bounce(Ping, Me, N) end),
    Ping ! {peer, Pong},
    T = timed(fun() -> Ping ! {m, 0}, receive done -> ok end end),
    row("ns_per_event", T / N, "ns").

%% Tokens go round a ring of Procs processes and this one, Laps times.
ring(Procs, Tokens, Laps) ->
    Me = self(),
    First = lists:foldl(fun(_, Next) -> spawn(fun() -> relay(Next) end) end,
        Me, lists:seq(1, Procs)),
    T = timed(fun() ->
        [First ! 0 || _ <- lists:seq(1, Tokens)],
        laps(First, Procs, Tokens * (Laps - 1)),
        [receive X -> X = Procs end || _ <- lists:seq(1, Tokens)]
    end),
    row("ns_per_event", T / (Tokens * Laps * (Procs + 1)), "ns").

laps(_, _, 0) -> ok;
laps(First, Procs, N) ->
    receive Procs -> First ! 0, laps(First, Procs, N - 1) end.

relay(Next) ->
    receive X -> Next ! X + 1, relay(Next) end.

count(0, Sum, Sum) -> ok;
count(N, Sum, Want) ->
    receive {m, X} -> count(N - 1, Sum + X, Want) end.

blast(N, N) -> ok;
blast(X, N) -> sink ! {m, X}, blast(X + 1, N).

spawn_idle(I) ->
    P = spawn(fun idle/0),
    register(list_to_atom("actor" ++ integer_to_list(I)), P),
    P.

idle() ->
    receive {stop, P} -> P ! ok end.

drain(0) -> ok;
drain(N) -> receive ok -> drain(N - 1) end.

ticks(0) -> ok;
ticks(N) -> receive tick -> ticks(N - 1) end.
